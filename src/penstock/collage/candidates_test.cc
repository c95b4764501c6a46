// Sets that rules yield on small networks, and closures beside a fixed point on random graphs.
#include "penstock/collage/candidates.h"

#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "penstock/collage/closure.h"
#include "penstock/collage/test_network.h"
#include "penstock/graph/subgraph.h"

namespace penstock::collage {
namespace {

std::string found(const TestNetwork& network, const std::string& rule, const Limits& limits = {}) {
  const auto graph = network.get();
  const auto list = candidates(graph, "acme", rule_of(rule), limits);
  return list ? shown(graph, *list) : list.error().message();
}

// --- Rules node by node
// -----------------------------------------------------------------------------

TestNetwork chain() {
  return TestNetwork().node("a", "Abs", {"x"}).node("b", "Relu", {"a"}).node("c", "Relu", {"b"});
}

TEST(CandidatesTest, OperatorsGiveSingleNodes) {
  EXPECT_EQ(found(chain(), R"({"ops": ["Relu"]})"), "b; c");
  EXPECT_EQ(found(chain(), R"({"all": true})"), "a; b; c");
}

TEST(CandidatesTest, ChainsMayOverlap) {
  EXPECT_EQ(found(chain(), R"({"chain": [{"ops": ["Relu", "Abs"]}, {"ops": ["Relu"]}]})"),
            "a b; b c");
  EXPECT_EQ(found(chain(), R"({"chain": [{"all": true}, {"all": true}, {"all": true}]})"), "a b c");
}

TEST(CandidatesTest, AChainsInnerValuesAreReadByItAlone) {
  const char* const rule = R"({"chain": [{"ops": ["Abs"]}, {"ops": ["Relu"]}]})";
  EXPECT_EQ(found(chain(), rule), "a b");
  EXPECT_EQ(found(chain().node("d", "Neg", {"a"}), rule), "");
  EXPECT_EQ(found(chain().output("a"), rule), "");
}

TEST(CandidatesTest, AUnionGivesEachSetOnce) {
  EXPECT_EQ(found(chain(), R"({"union": [{"ops": ["Abs"]}, {"ops": ["Relu"]}, {"all": true}]})"),
            "a; b; c");
}

TEST(CandidatesTest, OperatorsThatAreNotNamedStayOut) {
  const auto network =
      TestNetwork().node("a", "Abs", {"x"}).node("b", "Add", {"a"}).node("s", "Shape", {"b"});
  EXPECT_EQ(found(network, R"({"combine": {"ops": ["Abs", "Add"]}})"), "a; a b; b");
}

TEST(CandidatesTest, CombiningAChainGivesItsRuns) {
  EXPECT_EQ(found(chain(), R"({"combine": {"all": true}})"), "a; a b; a b c; b; b c; c");
}

TEST(CandidatesTest, CombiningLeavesNoHoles) {
  const auto diamond = TestNetwork()
                           .node("a", "Relu", {"x"})
                           .node("l", "Sin", {"a"})
                           .node("r", "Cos", {"a"})
                           .node("j", "Add", {"l", "r"});
  EXPECT_EQ(found(diamond, R"({"combine": {"all": true}})"),
            "a; a l; a r; a l r; a l r j; l; l j; l r j; r; r j; j");
  EXPECT_EQ(found(diamond, R"({"combine": {"ops": ["Relu", "Sin", "Add"]}})"), "a; a l; l; l j; j");
}

TEST(CandidatesTest, ARuleYieldsASetOrItDoesNot) {
  using graph::NodeId;
  const auto graph = chain().get();
  const auto yielded = [&](const std::string& rule) {
    std::string text;
    for (const auto& nodes : std::vector<std::vector<NodeId>>{{NodeId{0}},
                                                              {NodeId{1}},
                                                              {NodeId{0}, NodeId{1}},
                                                              {NodeId{1}, NodeId{2}},
                                                              {NodeId{0}, NodeId{1}, NodeId{2}}}) {
      text += yields(graph, rule_of(rule), nodes) ? "1" : "0";
    }
    return text;
  };
  const std::string pair = R"({"chain": [{"ops": ["Abs"]}, {"ops": ["Relu"]}]})";
  EXPECT_EQ(yielded(R"({"all": true})"), "11000");
  EXPECT_EQ(yielded(pair), "00100");
  EXPECT_EQ(yielded(R"({"union": [{"ops": ["Abs"]}, )" + pair + "]}"), "10100");
  EXPECT_EQ(yielded(R"({"combine": {"union": [{"ops": ["Relu"]}, )" + pair + "]}}"), "01111");
  EXPECT_EQ(yielded(R"({"only_valid": {"combine": {"host": {"all": true}}}, "max_nodes": 2})"),
            "11110");
}

TEST(CandidatesTest, WhatIsNotTouchingIsNotCombined) {
  const auto two = TestNetwork().node("a", "Abs", {"x"}).node("b", "Abs", {"y"});
  EXPECT_EQ(found(two, R"({"combine": {"all": true}})"), "a; b");
}

TEST(CandidatesTest, ProducersOfOneReaderAreCombined) {
  const auto network = TestNetwork()
                           .node("p", "Relu", {"x"})
                           .node("q", "Relu", {"y"})
                           .node("c", "Concat", {"p", "q"});
  EXPECT_EQ(found(network,
                  R"({"combine": {"all": true}, "joins": [{"from": ["Relu"], "to": ["Concat"]}]})"),
            "p; p c; q; q c; c");
  EXPECT_EQ(found(network, R"({"combine": {"all": true},
                              "joins": [{"from": ["Relu"], "to": ["Relu", "Concat"]}]})"),
            "p; p c; p q c; q; q c; c");
}

TEST(CandidatesTest, ReadersOfSeveralOutputsAreCombinedWithTheirProducer) {
  const auto network = TestNetwork()
                           .node("s", "Split", {"x"}, {"s2"})
                           .node("l", "Relu", {"s"})
                           .node("r", "Relu", {"s2"});
  EXPECT_EQ(found(network, R"({"combine": {"all": true}})"), "s; s l; s r; s l r; l; r");
}

TEST(CandidatesTest, HostNodesComputeNothing) {
  const auto graph = chain().get();
  const auto list = *candidates(
      graph, "acme", rule_of(R"({"union": [{"all": true}, {"host": {"ops": ["Abs"]}}]})"));
  ASSERT_EQ(list.size(), 3U);
  EXPECT_TRUE(list[0].host);
  EXPECT_FALSE(list[1].host);
}

TEST(CandidatesTest, LabelsSayWhatOperatorsTheyHold) {
  auto network = TestNetwork().node("n0", "Conv", {"x"});
  network.node("n1", "com:Odd", {"n0"});
  for (int i = 2; i < 8; ++i) {
    network.node("n" + std::to_string(i), "Relu", {"n" + std::to_string(i - 1)});
  }
  const auto graph = network.get();
  const std::vector<graph::NodeId> first{graph::NodeId{0}, graph::NodeId{2}};
  EXPECT_EQ(label_of(graph, first), "Conv+Relu");
  std::vector<graph::NodeId> all;
  for (std::uint32_t i = 0; i < 8; ++i) all.push_back(graph::NodeId{i});
  EXPECT_EQ(label_of(graph, all), "Conv+com:Odd+Relu+Relu+Relu+Relu+... (8 nodes)");
}

// --- The feed-forward part of a transformer, whose right answer is known
// ----------------------------

/// Numbers as in TVM's test of the same rules, where 6 is a matrix product and 9 a reshape.
TestNetwork gelu() {
  TestNetwork network;
  network.node("6", "MatMul", {"x"}).node("8", "Add", {"6"}).node("9", "Reshape", {"8"});
  network.node("11", "Mul", {"9"}).node("15", "Mul", {"9"}).node("17", "Mul", {"15"});
  network.node("18", "Add", {"9", "17"}).node("20", "Mul", {"18"}).node("21", "Tanh", {"20"});
  return network.node("23", "Add", {"21"}).node("24", "Mul", {"11", "23"});
}

const std::string kAnchorThenElementwise = R"({"combine": {"all": true},
    "joins": [{"from": ["MatMul", "Reshape", "Add", "Mul", "Tanh"], "to": ["Add", "Mul", "Tanh"]}]})";

std::set<std::string> sets_of(const std::string& text) {
  std::set<std::string> sets;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find("; ", at), text.size());
    sets.insert(text.substr(at, end - at));
    at = end + 2;
  }
  return sets;
}

TEST(CandidatesTest, OldProducersMeetNewReaders) {
  const auto sets = sets_of(
      found(gelu(), R"({"only_valid": )" + kAnchorThenElementwise + R"(, "max_depth": 3})"));
  EXPECT_EQ(sets.size(), 31U);
  EXPECT_TRUE(sets.contains("11 23 24"));
  EXPECT_TRUE(sets.contains("11 21 23 24"));
  EXPECT_TRUE(sets.contains("9 11 15 17"));
  EXPECT_FALSE(sets.contains("8 9"));
}

TEST(CandidatesTest, ValidityBoundsDepthExitsAndTaps) {
  const auto sets =
      sets_of(found(gelu(), R"({"only_valid": )" + kAnchorThenElementwise +
                                R"(, "max_depth": 2, "max_exits": 1, "taps": false})"));
  const std::set<std::string> expected{
      "6",  "8",   "9",     "11",    "15",    "17",    "18",    "20",    "21",    "23",
      "24", "6 8", "11 24", "15 17", "17 18", "18 20", "20 21", "21 23", "23 24", "11 23 24"};
  EXPECT_EQ(sets, expected);
}

// --- Validity
// ---------------------------------------------------------------------------------------

TestNetwork residual() {  // conv -> relu -> add, which reads conv too.
  return TestNetwork()
      .node("conv", "Conv", {"x"})
      .node("relu", "Relu", {"conv"})
      .node("add", "Add", {"relu", "conv"});
}

std::string valid(const TestNetwork& network, const std::string& limits) {
  return found(network, R"({"only_valid": {"combine": {"all": true}}, )" + limits + "}");
}

TEST(CandidatesTest, ATapIsAValueReadInsideAndOutside) {
  EXPECT_EQ(valid(residual(), R"("taps": false)"), "conv; conv relu add; relu; relu add; add");
  EXPECT_EQ(valid(residual(), R"("taps": true)"),
            "conv; conv relu; conv relu add; relu; relu add; add");
  EXPECT_EQ(valid(chain().output("a"), R"("taps": false)"), "a; b; b c; c");
}

TEST(CandidatesTest, ExitsAreValuesThatLeave) {
  EXPECT_EQ(valid(residual(), R"("max_exits": 1)"), "conv; conv relu add; relu; relu add; add");
  const auto fork =
      TestNetwork().node("a", "Conv", {"x"}).node("l", "Relu", {"a"}).node("r", "Relu", {"a"});
  EXPECT_EQ(valid(fork, R"("max_exits": 1)"), "a; l; r");
  EXPECT_EQ(valid(fork, R"("max_exits": 2)"), "a; a l; a r; a l r; l; r");
}

TEST(CandidatesTest, NodesAndDepthAreBounded) {
  EXPECT_EQ(valid(chain(), R"("max_nodes": 2)"), "a; a b; b; b c; c");
  EXPECT_EQ(valid(chain(), R"("max_depth": 1)"), "a; b; c");
  EXPECT_EQ(found(chain(), R"({"only_valid": {"all": true}, "max_nodes": 1})"), "a; b; c");
}

// --- Against plain enumeration
// ----------------------------------------------------------------------

/// A random network of n nodes, and its edges.
std::vector<Wiring::Edge> random_edges(std::mt19937& random, std::size_t n) {
  std::vector<Wiring::Edge> edges;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      if (random() % 4 == 0) edges.emplace_back(i, j);
    }
  }
  return edges;
}

bool convex(const Wiring& wiring, const NodeSet& set) {
  NodeSet before = wiring.none(), after = wiring.none();
  set.each([&](std::size_t i) {
    before |= wiring.before(i);
    after |= wiring.after(i);
  });
  return ((before & after) - set).empty();
}

bool connected(const Wiring& wiring, const NodeSet& set) {
  NodeSet reached = wiring.none();
  reached.add(set.first());
  for (std::size_t before = 0; before != reached.count();) {
    before = reached.count();
    set.each([&](std::size_t i) {
      for (const auto* list : {&wiring.producers(i), &wiring.readers(i)}) {
        for (const auto j : *list) {
          if (set.has(j) && reached.has(j)) reached.add(i);
        }
      }
    });
  }
  return reached == set;
}

using Family = std::set<std::vector<std::size_t>>;

Family members_of(const std::vector<NodeSet>& sets) {
  Family family;
  for (const auto& set : sets) family.insert(set.members());
  EXPECT_EQ(family.size(), sets.size()) << "a set twice";
  return family;
}

std::vector<NodeSet> singles(std::size_t n) {
  std::vector<NodeSet> sets(n, NodeSet(n));
  for (std::size_t i = 0; i < n; ++i) sets[i].add(i);
  return sets;
}

TEST(ClosureTest, OfSingleNodesIsAllConnectedConvexSets) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::size_t n = 1 + random() % 9;
    const Wiring wiring(n, random_edges(random, n));
    Family expected;
    for (unsigned bits = 1; bits < 1U << n; ++bits) {
      NodeSet set(n);
      for (std::size_t i = 0; i < n; ++i) {
        if ((bits >> i & 1U) != 0) set.add(i);
      }
      if (convex(wiring, set) && connected(wiring, set)) expected.insert(set.members());
    }
    ASSERT_EQ(members_of(closure(wiring, singles(n), {}, {})), expected) << round;
  }
}

/// The definition, read word by word.
Family fixed_point(const Wiring& wiring, std::vector<NodeSet> sets,
                   const std::vector<JoinSets>& joins) {
  const auto reads = [&](const NodeSet& from, const NodeSet& to) {
    bool edge = false;
    from.each([&](std::size_t i) {
      for (const auto j : wiring.readers(i)) edge = edge || to.has(j);
    });
    return edge && (joins.empty() || std::ranges::any_of(joins, [&](const JoinSets& join) {
                      return from.is_subset_of(join.from) && to.is_subset_of(join.to);
                    }));
  };
  std::set<NodeSet, NodeSet::Before> known(sets.begin(), sets.end());
  for (std::size_t before = 0; before != known.size();) {
    before = known.size();
    const std::vector<NodeSet> now(known.begin(), known.end());
    for (const auto& a : now) {
      for (const auto& b : now) {
        if (!a.intersects(b) && reads(a, b) && convex(wiring, a | b)) known.insert(a | b);
      }
    }
  }
  return members_of({known.begin(), known.end()});
}

TEST(ClosureTest, OfAnySetsAndJoinsIsTheFixedPoint) {
  std::mt19937 random(2);
  const auto some = [&](std::size_t n, unsigned of) {
    NodeSet set(n);
    for (std::size_t i = 0; i < n; ++i) {
      if (random() % of != 0) set.add(i);
    }
    return set;
  };
  for (int round = 0; round < 200; ++round) {
    const std::size_t n = 2 + random() % 7;
    const Wiring wiring(n, random_edges(random, n));
    std::vector<NodeSet> base;
    for (const auto& set : closure(wiring, singles(n), {}, {})) {
      if (set.count() <= 3 && random() % 3 != 0) base.push_back(set);
    }
    std::vector<JoinSets> joins;
    for (auto j = random() % 3; j > 0; --j) joins.push_back({some(n, 6), some(n, 6)});
    ASSERT_EQ(members_of(closure(wiring, base, joins, {})), fixed_point(wiring, base, joins))
        << round;
  }
}

TEST(ClosureTest, LimitsOnSizeAndDepthLeaveOutJustWhatIsBeyond) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    const std::size_t n = 2 + random() % 7;
    const Wiring wiring(n, random_edges(random, n));
    ClosureLimits limits;
    limits.max_members = 1 + random() % n;
    limits.max_depth = 1 + random() % n;
    auto expected = closure(wiring, singles(n), {}, {});
    std::erase_if(expected, [&](const NodeSet& set) {
      return set.count() > limits.max_members || wiring.depth_of(set) > limits.max_depth;
    });
    ASSERT_EQ(members_of(closure(wiring, singles(n), {}, limits)), members_of(expected)) << round;
  }
}

// --- Limits
// -----------------------------------------------------------------------------------------

/// Cells like NASNet's: five blocks, each of two operations on earlier values, joined at the end.
graph::Graph wide_cells(int cells) {
  TestNetwork network;
  std::string before = "x", last = "x";
  for (int c = 0; c < cells; ++c) {
    const std::string p = "c" + std::to_string(c) + "_";
    network.node(p + "a", "Conv", {last}).node(p + "b", "Conv", {before});
    std::vector<std::string> blocks;
    for (int b = 0; b < 5; ++b) {
      const auto q = p + std::to_string(b);
      const std::string left = p + (b % 2 == 0 ? "a" : "b"), right = b < 2 ? p + "b" : blocks[0];
      network.node(q + "l", "Conv", {left}).node(q + "m", "Relu", {q + "l"});
      network.node(q + "r", "Conv", {right}).node(q + "s", "Relu", {q + "r"});
      network.node(q, "Add", {q + "m", q + "s"});
      blocks.push_back(q);
    }
    network.node(p + "join", "Concat", {blocks[0], blocks[1], blocks[2], blocks[3], blocks[4]});
    before = last;
    last = p + "join";
  }
  return network.get();
}

TEST(CandidatesTest, OnWideNetworksTheyStayWithinTheirLimits) {
  const auto graph = wide_cells(6);
  Limits limits;
  limits.max_candidates = 2000;
  const auto list = *candidates(graph, "acme", rule_of(R"({"combine": {"all": true}})"), limits);
  EXPECT_EQ(list.size(), 2000U);
  std::map<std::size_t, std::size_t> of_size;
  for (const auto& candidate : list) {
    ++of_size[candidate.nodes.size()];
    ASSERT_TRUE(graph::Subgraph::create(graph, candidate.nodes)) << candidate.label;
  }
  EXPECT_EQ(of_size[1], graph.nodes.size());
  EXPECT_GT(of_size.rbegin()->first, 2U);
}

TEST(CandidatesTest, TheBeamKeepsSomeEverywhere) {
  const auto graph = wide_cells(3);
  Limits limits;
  limits.beam = 1;
  limits.max_nodes = 4;
  const auto list = *candidates(graph, "acme", rule_of(R"({"combine": {"all": true}})"), limits);
  std::map<std::pair<graph::NodeId, std::size_t>, int> seen;
  for (const auto& candidate : list) {
    EXPECT_LE(++seen[std::pair(candidate.nodes.front(), candidate.nodes.size())], 1);
  }
  EXPECT_GT(seen.size(), 3 * graph.nodes.size());
}

TEST(CandidatesTest, TheSameArgumentsGiveTheSameAnswer) {
  const auto graph = wide_cells(4);
  const auto rule = rule_of(R"({"only_valid": {"combine": {"all": true}}, "max_exits": 1})");
  const Limits limits{.max_nodes = 12};
  EXPECT_EQ(shown(graph, *candidates(graph, "acme", rule, limits)),
            shown(graph, *candidates(graph, "acme", rule, limits)));
}

TEST(CandidatesTest, RefusesLimitsOfNothing) {
  EXPECT_EQ(found(chain(), R"({"all": true})", {.max_nodes = 0}),
            "limits of candidates: expected numbers above 0");
}

}  // namespace
}  // namespace penstock::collage
