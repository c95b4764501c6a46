// Where small networks are cut into units, and the candidates and cover problems made of units.
#include "penstock/collage/units.h"

#include <gtest/gtest.h>

#include "penstock/collage/test_network.h"
#include "penstock/graph/subgraph.h"

namespace penstock::collage {
namespace {

/// "a b | c": the nodes of each unit.
std::string text_of(const graph::Graph& graph, const Units& units) {
  return join(units.nodes, " | ", [&](const auto& nodes) {
    return join(nodes, " ", [&](graph::NodeId id) { return graph.node(id).name; });
  });
}

std::string cut(const TestNetwork& network, std::size_t most, std::vector<double> seconds = {},
                const std::vector<NodeSet>& supported = {}) {
  const auto graph = network.get();
  if (seconds.empty()) seconds.assign(graph.nodes.size(), 1e-3);
  UnitLimits limits;
  limits.max_units = most;
  return text_of(graph, make_units(graph, seconds, supported, limits));
}

TestNetwork line(int n) {
  TestNetwork network;
  for (int i = 0; i < n; ++i) {
    network.node("n" + std::to_string(i), i % 2 == 0 ? "Conv" : "Relu",
                 {i == 0 ? "x" : "n" + std::to_string(i - 1)});
  }
  return network;
}

TEST(UnitsTest, AreOfAboutEqualTime) {
  EXPECT_EQ(cut(line(6), 3), "n0 n1 | n2 n3 | n4 n5");
  EXPECT_EQ(cut(line(6), 2, {5e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3}), "n0 | n1 n2 n3 n4 n5");
}

TEST(UnitsTest, AreCutWhereFewBytesCross) {
  EXPECT_EQ(cut(line(6).size("n2", 1 << 20), 2), "n0 n1 | n2 n3 n4 n5");
}

TEST(UnitsTest, AreNoMoreThanNodes) {
  EXPECT_EQ(cut(line(2), 16), "n0 | n1");
  EXPECT_EQ(cut(TestNetwork(), 4), "");
}

TEST(UnitsTest, AreEvenWhereNoTimeIsKnown) {
  EXPECT_EQ(cut(line(4), 2, std::vector<double>(4, 0.0)), "n0 n1 | n2 n3");
}

TestNetwork ladder() {  // Blocks of three with a way around each; single tensors between them.
  TestNetwork network;
  std::string before = "x";
  for (int b = 0; b < 3; ++b) {
    const auto p = std::string(1, static_cast<char>('a' + b));
    network.node(p + "0", "Conv", {before}).node(p + "1", "Relu", {p + "0"});
    network.node(p + "2", "Add", {p + "1", p + "0"});
    before = p + "2";
  }
  return network;
}

TEST(UnitsTest, AreCutAtSingleTensorsWhereThereAreSome) {
  EXPECT_EQ(cut(ladder(), 3), "a0 a1 a2 | b0 b1 b2 | c0 c1 c2");
}

TEST(UnitsTest, AreCutAtSeveralTensorsWhereThereIsNoSingleOne) {
  TestNetwork network;  // Two lines side by side that exchange values at every step.
  std::string left = "x", right = "y";
  for (int i = 0; i < 4; ++i) {
    const auto n = std::to_string(i);
    network.node("l" + n, "Add", {left, right}).node("r" + n, "Mul", {left, right});
    left = "l" + n;
    right = "r" + n;
  }
  EXPECT_EQ(cut(network, 2), "l0 r0 l1 r1 | l2 r2 l3 r3");
}

TEST(UnitsTest, BranchesStayTogetherHoweverTheFileOrdersThem) {
  TestNetwork network = TestNetwork().node("s", "Conv", {"x"});
  network.node("l0", "Conv", {"s"}).node("r0", "Conv", {"s"});
  network.node("l1", "Conv", {"l0"}).node("r1", "Conv", {"r0"}).node("j", "Add", {"l1", "r1"});
  EXPECT_EQ(cut(network, 2), "s l0 l1 | r0 r1 j");
}

TEST(UnitsTest, LargeBranchesAreUnitsOfTheirOwn) {
  TestNetwork network = TestNetwork().node("s", "Conv", {"x"});
  for (const std::string b : {"l", "r"}) {
    network.node(b + "0", "Conv", {"s"}).node(b + "1", "Relu", {b + "0"});
  }
  network.node("j", "Add", {"l1", "r1"});
  EXPECT_EQ(cut(network, 4, {3e-3, 5e-3, 1e-4, 5e-3, 1e-4, 6e-3}), "s | l0 l1 | r0 r1 | j");
}

TEST(UnitsTest, FollowWhatBackendsSupport) {
  NodeSet supported(6);
  for (const std::size_t i : {1, 2, 3}) supported.add(i);
  EXPECT_EQ(cut(line(6), 3, {}, {supported}), "n0 | n1 n2 n3 | n4 n5");
}

TEST(UnitsTest, ValuesThatAreNoTensorsAreNotCut) {
  auto graph = line(4).get();
  graph.values[index(*graph.find_value("n1"))].type = Type();
  UnitLimits limits;
  limits.max_units = 2;
  const auto units = make_units(graph, std::vector<double>(4, 1e-3), {}, limits);
  EXPECT_NE(text_of(graph, units), "n0 n1 | n2 n3");
}

TEST(UnitsTest, AreConvexInEveryRun) {
  const auto graph = ladder().get();
  const auto units = make_units(graph, {}, {}, {});
  for (std::size_t i = 0; i < units.size(); ++i) {
    std::vector<graph::NodeId> run;
    for (std::size_t j = i; j < units.size(); ++j) {
      run.insert(run.end(), units.nodes[j].begin(), units.nodes[j].end());
      EXPECT_TRUE(graph::Subgraph::create(graph, run));
    }
  }
}

TEST(UnitsTest, LongNetworksAreCutToo) {
  const auto graph = line(3000).get();
  UnitLimits limits;
  limits.max_units = 10;
  const auto units = make_units(graph, std::vector<double>(3000, 1e-4), {}, limits);
  ASSERT_EQ(units.size(), 10U);
  for (const auto& nodes : units.nodes) EXPECT_NEAR(static_cast<double>(nodes.size()), 300, 10);
}

// --- Candidates made of units
// -----------------------------------------------------------------------

std::string found(const graph::Graph& graph, const Units& units, const std::string& rule) {
  const auto list = candidates(graph, units, "acme", rule_of(rule));
  return list ? shown(graph, *list) : list.error().message();
}

Units three_of(const graph::Graph& graph) {
  UnitLimits limits;
  limits.max_units = 3;
  return make_units(graph, std::vector<double>(graph.nodes.size(), 1e-3), {}, limits);
}

TEST(UnitCandidatesTest, AreAllRuns) {
  const auto graph = line(6).get();
  EXPECT_EQ(found(graph, three_of(graph), R"({"combine": {"all": true}})"),
            "n0 n1; n0 n1 n2 n3; n0 n1 n2 n3 n4 n5; n2 n3; n2 n3 n4 n5; n4 n5");
}

TEST(UnitCandidatesTest, AreRunsThatTheBackendTakesWhole) {
  auto graph = line(6).get();
  graph.nodes[3].op = "Odd";
  EXPECT_EQ(found(graph, three_of(graph), R"({"combine": {"ops": ["Conv", "Relu"]}})"),
            "n0 n1; n4 n5");
}

TEST(UnitCandidatesTest, KeepTheRulesOwnLimits) {
  const auto graph = line(6).get();
  EXPECT_EQ(found(graph, three_of(graph),
                  R"({"only_valid": {"combine": {"all": true}}, "max_nodes": 4})"),
            "n0 n1; n0 n1 n2 n3; n2 n3; n2 n3 n4 n5; n4 n5");
}

TEST(UnitCandidatesTest, OfRulesThatDoNotCombineAreThoseThatFit) {
  const auto graph = line(6).get();
  EXPECT_EQ(found(graph, three_of(graph), R"({"chain": [{"ops": ["Conv"]}, {"ops": ["Relu"]}]})"),
            "n0 n1; n2 n3; n4 n5");
  EXPECT_EQ(found(graph, three_of(graph), R"({"all": true})"), "");
}

TEST(UnitCandidatesTest, HoldTheWholeNetworkWhereItsPartsDoNotTouch) {
  const auto graph = TestNetwork().node("a", "Relu", {"x"}).node("b", "Relu", {"y"}).get();
  Units units = each_node(graph);
  EXPECT_EQ(found(graph, units, R"({"combine": {"all": true}})"), "a; a b; b");
  EXPECT_EQ(found(graph, units, R"({"combine": {"ops": ["Sin"]}})"), "");
  EXPECT_EQ(found(graph, units, R"({"ops": ["Relu"]})"), "a; b");
  units.nodes = {{graph::NodeId{0}, graph::NodeId{1}}};
  units.of_node = {0, 0};
  EXPECT_EQ(found(graph, units, R"({"combine": {"all": true}})"), "a b");
}

TEST(CoverProblemTest, ListsTheValuesBetweenUnits) {
  const auto graph = ladder().output("a0").get();
  const auto problem = cover_problem(graph, three_of(graph));
  EXPECT_EQ(problem.nodes, 3);
  EXPECT_EQ(problem.names[0], "a0' to 'a2");
  std::vector<std::string> values;
  for (const auto& value : problem.values) {
    values.push_back(concat(value.producer, "->",
                            join(value.consumers, ",", [](int c) { return concat(c); }),
                            value.leaves ? "!" : "", " ", value.bytes));
  }
  EXPECT_EQ(join(values, "; "), "-1->0 16; 0->! 16; 0->1 16; 1->2 16; 2->! 16");
}

}  // namespace
}  // namespace penstock::collage
