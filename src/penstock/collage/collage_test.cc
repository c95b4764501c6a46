// Rules, candidates and cover together, on costs that are known.
// A candidate costs the sum of its operators, the i-th of them (from 0) 0.9^i times as much.
#include <map>

#include <gtest/gtest.h>

#include "penstock/collage/candidates.h"
#include "penstock/collage/cover.h"
#include "penstock/collage/test_network.h"

namespace penstock::collage {
namespace {

struct Toolchain {
  std::string name;
  std::string rule;
  double operator_cost = 1;
};

/// Takes everything, up to `depth` nodes on a path.
Toolchain native(double operator_cost, int depth) {
  return {
      "native",
      R"({"only_valid": {"combine": {"all": true}}, "max_depth": )" + std::to_string(depth) + "}",
      operator_cost};
}
/// Takes some operators, with any number of values that leave.
Toolchain hook(double operator_cost, int depth) {
  return {"hook",
          R"({"only_valid": {"combine": {"ops": ["Relu", "Add", "Concat"]}}, "max_depth": )" +
              std::to_string(depth) + "}",
          operator_cost};
}

double cost_of(const Toolchain& chain, const Candidate& candidate) {
  double cost = 0, discount = 1;
  for (std::size_t i = 0; i < candidate.nodes.size(); ++i, discount *= 0.9) {
    cost += chain.operator_cost * discount;
  }
  return cost;
}

/// "hook(a b) native(c): cost" of the best cover.
std::string chosen(const TestNetwork& network, const std::vector<Toolchain>& chains) {
  const auto graph = network.get();
  auto problem = cover_problem(graph, each_node(graph));
  std::vector<Candidate> all;
  for (std::size_t b = 0; b < chains.size(); ++b) {
    auto list = *candidates(graph, chains[b].name, rule_of(chains[b].rule));
    for (auto& one : list) {
      problem.candidates.push_back({one.units, {static_cast<int>(b), 0}, cost_of(chains[b], one)});
      all.push_back(std::move(one));
    }
  }
  const auto covers = find_covers(problem);
  if (!covers) return covers.error().message();
  std::string text;
  for (const int c : covers->best.front().candidates) {
    const auto& part = all[static_cast<std::size_t>(c)];
    text += part.backend + "(" +
            join(part.nodes, " ", [&](graph::NodeId id) { return graph.node(id).name; }) + ") ";
  }
  return text + concat(covers->best.front().cost);
}

TestNetwork relus(int n) {
  TestNetwork network;
  for (int i = 0; i < n; ++i) {
    network.node("r" + std::to_string(i), "Relu", {i == 0 ? "x" : "r" + std::to_string(i - 1)});
  }
  return network;
}

TEST(CollageTest, OneOperatorGoesToTheCheaperBackend) {
  EXPECT_EQ(chosen(relus(1), {native(1, 1), hook(2, 1)}), "native(r0) 1");
  EXPECT_EQ(chosen(relus(1), {native(2, 1), hook(1, 1)}), "hook(r0) 1");
}

TEST(CollageTest, TwoOperatorsTogetherCostLessThanAlone) {
  EXPECT_EQ(chosen(relus(2), {native(3, 2)}), "native(r0 r1) 5.7");
}

TEST(CollageTest, DepthDecidesWhatFusionIsWorth) {
  EXPECT_EQ(chosen(relus(3), {native(100, 1), hook(99, 1)}), "hook(r0) hook(r1) hook(r2) 297");
  EXPECT_EQ(chosen(relus(3), {native(100, 2), hook(99, 1)}), "native(r0 r1) hook(r2) 289");
  EXPECT_EQ(chosen(relus(3), {native(100, 3), hook(99, 1)}), "native(r0 r1 r2) 271");
  EXPECT_EQ(chosen(relus(3), {native(99, 1), hook(100, 1)}),
            "native(r0) native(r1) native(r2) 297");
  EXPECT_EQ(chosen(relus(3), {native(99, 1), hook(100, 2)}), "native(r0) hook(r1 r2) 289");
  EXPECT_EQ(chosen(relus(3), {native(99, 1), hook(100, 3)}), "hook(r0 r1 r2) 271");
}

TEST(CollageTest, WhatABackendDoesNotTakeSplitsItsPart) {
  const auto network = TestNetwork()
                           .node("r0", "Relu", {"x"})
                           .node("abs", "Abs", {"r0"})
                           .node("r1", "Relu", {"abs"})
                           .node("add", "Add", {"abs", "r1"});
  EXPECT_EQ(chosen(network, {native(3, 1), hook(1, 3)}), "hook(r0) native(abs) hook(r1 add) 5.9");
}

TEST(CollageTest, NoPartWaitsForItself) {
  const auto network = TestNetwork()  // Abs lies between the two that hook could take together.
                           .node("r", "Relu", {"x"})
                           .node("abs", "Abs", {"r"})
                           .node("add0", "Add", {"r", "abs"})
                           .node("add1", "Add", {"add0", "abs"});
  EXPECT_EQ(chosen(network, {native(3, 1), hook(1, 9)}), "hook(r) native(abs) hook(add0 add1) 5.9");
}

TEST(CollageTest, ARegionMayHaveSeveralInputsAndOutputs) {
  const auto network = TestNetwork()
                           .node("r0", "Relu", {"x"})
                           .node("r1", "Relu", {"r0"})
                           .node("a0", "Abs", {"y"})
                           .node("r2", "Relu", {"a0"})
                           .node("add", "Add", {"r1", "r2"})
                           .node("r3", "Relu", {"add"})
                           .node("a1", "Abs", {"r3"});
  EXPECT_EQ(chosen(network, {native(5, 1), hook(6, 5)}),
            "native(a0) hook(r0 r1 r2 add r3) native(a1) 34.5706");
  const auto fork =
      TestNetwork().node("r0", "Relu", {"x"}).node("r1", "Relu", {"r0"}).node("abs", "Abs", {"r1"});
  EXPECT_EQ(chosen(TestNetwork(fork).output("r0").output("r1"), {native(3, 1), hook(1, 3)}),
            "hook(r0 r1) native(abs) 4.9");
}

TEST(CollageTest, ProducersOfAConcatGoWithItWhereItsBackendTakesThem) {
  const auto network = TestNetwork()
                           .node("r0", "Relu", {"x"})
                           .node("r1", "Relu", {"y"})
                           .node("c", "Concat", {"r0", "r1"});
  EXPECT_EQ(chosen(network, {native(3, 1), hook(1, 2)}), "hook(r0 r1 c) 2.71");
  EXPECT_EQ(chosen(network, {native(3, 1), hook(1, 1)}), "hook(r0) hook(r1) hook(c) 3");
}

TEST(CollageTest, ABackendWithoutRoomForAnOperatorLeavesItUncovered) {
  EXPECT_EQ(chosen(TestNetwork().node("r", "Relu", {"x"}).node("s", "Sin", {"r"}), {hook(1, 1)}),
            "node 's': no backend takes it");
}

TEST(CollageTest, ABackendThatLiesCostsOnlyItsCandidates) {
  EXPECT_EQ(chosen(relus(2), {native(3, 1), hook(std::numeric_limits<double>::quiet_NaN(), 2)}),
            "native(r0) native(r1) 6");
}

}  // namespace
}  // namespace penstock::collage
