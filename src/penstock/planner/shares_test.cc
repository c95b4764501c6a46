// Plans on shares of four CPUs, and bounds on random problems beside brute force.
#include "penstock/planner/throughput/shares.h"

#include <utility>

#include <gtest/gtest.h>

#include "penstock/planner/choose.h"
#include "penstock/planner/problem/index.h"
#include "penstock/planner/testing/test_brute_force.h"
#include "penstock/planner/testing/test_chain.h"
#include "penstock/planner/testing/test_random_problem.h"

namespace penstock::planner {
namespace {

const Shares kFour{{0.25, 0.5}, 1};

TEST(SharesTest, GivesEachStageAsMuchAsItNeeds) {
  const auto plan = plan_shares(narrow_and_wide({{8, 4}, {4, 3}, {4, 3}}), {}, kFour, {});
  EXPECT_NEAR(plan.lower_bound, 4, 1e-6);
  ASSERT_EQ(plan.split.stages.size(), 3U);
  EXPECT_EQ(plan.split.stages[0].mode, 1);
  EXPECT_EQ(plan.split.stages[1].mode, 0);
}

TEST(SharesTest, ReplicasTakeTheirParts) {
  Options options;
  options.replicas = true;
  const auto plan = plan_shares(narrow_and_wide({{12, 9}, {4, 3}}), options, kFour, {});
  EXPECT_NEAR(plan.lower_bound, 4, 1e-6) << "three narrow ones, and one";
}

TEST(SharesTest, WhatFitsNoDeviceIsRefuted) {
  auto problem = narrow_and_wide({{1, 1}, {1, 1}, {1, 1}});
  problem.types.pop_back();
  problem.modes.pop_back();
  for (auto& group : problem.groups) group.time = {1};
  problem.types[0].memory = 1;
  EXPECT_EQ(plan_shares(problem, {}, {{0.5}, 1}, {}).lower_bound, kInfinite);
  EXPECT_NEAR(plan_shares(problem, {}, {{0.25}, 1}, {}).lower_bound, 1, 1e-6);
}

/// Two branches between a first and a last group: four stages only where both halves are cut alike.
TEST(SharesTest, AllOrdersAreSearched) {
  auto problem = narrow_and_wide({{4, 4}, {3, 9}, {2, 9}, {1, 9}, {2, 9}, {4, 4}});
  problem.order = {{0, 1}, {1, 2}, {2, 5}, {0, 3}, {3, 4}, {4, 5}};
  const auto plan = plan_shares(problem, {}, kFour, {});
  EXPECT_NEAR(plan.lower_bound, 4, 1e-5);
  EXPECT_EQ(plan.split.stages.size(), 4U);
}

/// Whether the network is a chain or not, with memory and replicas or not.
TEST(SharesTest, NoGroupingBeatsTheBound) {
  for (const auto seed : sampled(60)) {
    RandomOptions made{.groups = 5, .devices = {3, 2}};
    made.memory = seed % 2 == 0;
    made.launch = made.unsupported = seed % 5 == 0;
    auto problem = random_problem(seed, made);
    if (seed % 3 == 0) {
      problem.order.clear();
      for (int g = 1; std::cmp_less(g, problem.groups.size()); ++g) {
        problem.order.emplace_back(g - 1, g);
      }
    }
    Options options;
    options.replicas = seed % 4 == 0;
    const std::vector<Counts> groupings{{3, 0}, {0, 2}, {1, 1}};
    const auto plan = plan_shares(problem, options, {{1.0 / 3, 0.5}, 1}, {});
    double least = kInfinite;
    for (const auto& counts : groupings) {
      const auto best = brute_force(with_counts(problem, counts), options);
      if (best) least = std::min(least, best->cost);
    }
    EXPECT_LE(plan.lower_bound, least * (1 + 1e-7)) << seed;
    const auto choice = choose(problem, groupings, options);
    ASSERT_EQ(static_cast<bool>(choice), least < kInfinite) << seed;
    if (choice) {
      EXPECT_NEAR(choice->answer.cost, least, 1e-7 * least) << seed;
    }
  }
}

}  // namespace
}  // namespace penstock::planner
