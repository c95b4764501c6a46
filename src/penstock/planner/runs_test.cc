// Chains merged into runs: even times, nothing lost, modes and colocated groups respected.
#include "penstock/planner/problem/runs.h"

#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/planner/solve.h"

namespace penstock::planner {
namespace {

using testing::ElementsAre;

/// A chain of so many groups on two devices of a type.
Problem long_chain(int groups) {
  Problem problem;
  problem.types.push_back({.name = "cpu", .devices = {"cpu:0", "cpu:1"}});
  problem.modes.push_back({"cpu", 0, 0});
  for (int i = 0; i < groups; ++i) {
    problem.groups.push_back({concat("g", i), {i}, {1.0 + i % 7}, 2});
    if (i == 0) continue;
    problem.values.push_back({concat("v", i), i - 1, {i}, 4, 0.001});
    problem.order.emplace_back(i - 1, i);
  }
  return problem;
}

TEST(RunsTest, AFewGroupsStayAsTheyAre) {
  const auto merged = merge_runs(long_chain(5), 5);
  EXPECT_EQ(merged.groups.size(), 5U);
  EXPECT_TRUE(merged.scope.empty());
  EXPECT_TRUE(merged.notes.empty());
}

TEST(RunsTest, ManyBecomeRunsOfEvenTimeThatLoseNothing) {
  const auto problem = long_chain(100'000);
  const auto merged = merge_runs(problem, 1000);
  EXPECT_LE(merged.groups.size(), 1100U);
  EXPECT_GE(merged.groups.size(), 900U);
  double time = 0, all = 0, memory = 0, most = 0;
  int next = 0;
  for (const auto& group : problem.groups) all += group.time[0];
  for (const auto& group : merged.groups) {
    time += group.time[0];
    memory += group.memory;
    most = std::max(most, group.time[0]);
    for (const int node : group.nodes) EXPECT_EQ(node, next++);
  }
  EXPECT_EQ(next, 100'000);
  EXPECT_NEAR(time, all, 1e-6 * all);
  EXPECT_DOUBLE_EQ(memory, 200'000);
  EXPECT_LT(most, 2 * all / 1000);
  EXPECT_EQ(merged.values.size(), merged.groups.size() - 1);
  EXPECT_FALSE(merged.scope.empty());
  ASSERT_TRUE(validate(merged));
  const auto answer = solve(merged, {.seconds = 5});
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_LT(answer->evaluation.period, 0.505 * all);
}

TEST(RunsTest, ARunEndsWhereAnotherModeIsNeeded) {
  auto problem = long_chain(60);
  auto pinned = pin(problem, 30, "cpu:1");
  ASSERT_TRUE(pinned);
  const auto merged = merge_runs(*pinned, 3);
  for (const auto& group : merged.groups) {
    if (std::ranges::find(group.nodes, 30) != group.nodes.end()) {
      EXPECT_THAT(group.nodes, ElementsAre(30));
    }
  }
  EXPECT_TRUE(validate(merged));
}

TEST(RunsTest, WhatMustStayTogetherDoes) {
  auto problem = long_chain(40);
  problem.colocated = {{0, 1}, {3, 35}};
  const auto merged = merge_runs(problem, 8);
  ASSERT_EQ(merged.colocated.size(), 1U);  // The first is within one run.
  const auto holds = [&](int run, int node) {
    const auto& nodes = merged.groups[static_cast<std::size_t>(run)].nodes;
    return std::ranges::find(nodes, node) != nodes.end();
  };
  ASSERT_EQ(merged.colocated[0].size(), 2U);
  EXPECT_TRUE(holds(merged.colocated[0][0], 3));
  EXPECT_TRUE(holds(merged.colocated[0][1], 35));
  EXPECT_TRUE(validate(merged));
}

}  // namespace
}  // namespace penstock::planner
