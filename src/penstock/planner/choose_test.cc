// Groupings of four CPUs whose best is known, and random problems beside brute force on each.
#include "penstock/planner/choose.h"

#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/planner/problem/index.h"
#include "penstock/planner/testing/test_brute_force.h"
#include "penstock/planner/testing/test_chain.h"
#include "penstock/planner/testing/test_random_problem.h"

namespace penstock::planner {
namespace {

/// Of four CPUs, a wide device takes two.
const std::vector<Counts> kFourCpus{{4, 0}, {2, 1}, {0, 2}};

TEST(ChooseTest, MixesWidthsWhereOneGroupNeedsMoreThanOneCpu) {
  const auto problem = narrow_and_wide({{8, 4}, {4, 3}, {4, 3}});
  const auto choice = choose(problem, kFourCpus, {});
  ASSERT_TRUE(choice) << choice.error().message();
  EXPECT_EQ(choice->grouping, 1U);
  EXPECT_DOUBLE_EQ(choice->answer.cost, 4);
  EXPECT_TRUE(choice->answer.proved);
  EXPECT_EQ(choice->settled, 3U);
}

TEST(ChooseTest, LeavesDevicesIdleThatDoNotHelp) {
  const auto choice = choose(narrow_and_wide({{8, 4}}), kFourCpus, {});
  ASSERT_TRUE(choice) << choice.error().message();
  EXPECT_EQ(choice->grouping, 1U) << "of the two with a wide device the first";
  ASSERT_EQ(choice->answer.split.stages.size(), 1U);
  EXPECT_EQ(choice->answer.split.stages.front().devices.size(), 1U);
}

TEST(ChooseTest, MemoryDecidesHowOftenANetworkIsHeld) {
  auto problem = narrow_and_wide({{8, 5}, {8, 5}});
  Options options;
  options.replicas = true;
  EXPECT_EQ(choose(problem, kFourCpus, options)->grouping, 0U) << "four copies of 16: 4 a frame";
  for (auto& type : problem.types) type.memory = 1;
  EXPECT_DOUBLE_EQ(choose(problem, kFourCpus, options)->answer.cost, 4) << "each half twice";
  problem.types[0].memory = 0.5;
  const auto wide_alone = choose(problem, kFourCpus, options);
  EXPECT_EQ(wide_alone->grouping, 2U);
  EXPECT_DOUBLE_EQ(wide_alone->answer.cost, 5);
}

TEST(ChooseTest, GroupingsThatCannotRunTheNetworkArePassedOver) {
  const auto choice = choose(narrow_and_wide({{kInfinite, 4}, {1, 1}}), kFourCpus, {});
  ASSERT_TRUE(choice) << choice.error().message();
  EXPECT_EQ(choice->grouping, 1U);
  EXPECT_DOUBLE_EQ(choice->answer.cost, 4);
}

TEST(ChooseTest, LinksAndModesFollowTheTypesThatStay) {
  auto problem = narrow_and_wide({{4, 2}, {4, 2}});
  problem.values = {{"v", 0, {1}, 10, 0}};
  problem.links = {{{1, kInfinite}, {2, kInfinite}}, {{3, kInfinite}, {4, 5}}};
  problem.modes.insert(problem.modes.begin(), {"narrow/slow", 0, 1});
  for (auto& group : problem.groups) group.time.insert(group.time.begin(), 9);
  const auto wide = with_counts(problem, {0, 2});
  ASSERT_EQ(wide.types.size(), 1U);
  EXPECT_EQ(wide.types[0].name, "wide");
  ASSERT_EQ(wide.modes.size(), 1U);
  EXPECT_EQ(wide.modes[0].type, 0);
  EXPECT_THAT(wide.groups[1].time, testing::ElementsAre(2));
  EXPECT_DOUBLE_EQ(transfer_time(wide, wide.values[0], 0, 0), 6);
  EXPECT_TRUE(validate(wide)) << validate(wide).error().message();
}

TEST(ChooseTest, SaysWhatIsWrong) {
  const auto problem = narrow_and_wide({{1, 1}});
  EXPECT_EQ(choose(problem, {}, {}).error().message(), "expected a grouping or more, found none");
  EXPECT_EQ(choose(problem, {{1}}, {}).error().message(),
            "grouping 0: expected a count for each of 2 types, found 1");
  EXPECT_EQ(choose(problem, {{4, 0}, {4, 3}}, {}).error().message(),
            "grouping 1: expected from 0 to 2 devices of type 'wide', found 3");
  EXPECT_EQ(choose(problem, {{0, 0}}, {}).error().code, Code::kInvalidArgument);
}

TEST(ChooseTest, WhereNoGroupingHasRoomTheFirstSaysSo) {
  auto problem = narrow_and_wide({{1, 1}, {1, 1}});
  for (auto& type : problem.types) type.memory = 0.5;
  EXPECT_EQ(choose(problem, kFourCpus, {}).error().code, Code::kInvalidArgument);
  problem.types[0].memory = problem.types[1].memory = 1;
  problem.colocated = {{0, 1}};
  EXPECT_FALSE(choose(problem, kFourCpus, {}));
}

TEST(ChooseTest, WithoutTimeTheBoundStillHolds) {
  Options options;
  options.seconds = 0;
  const auto problem = narrow_and_wide({{8, 4}, {4, 3}, {4, 3}});
  const auto choice = choose(problem, kFourCpus, options);
  if (!choice) {
    EXPECT_EQ(choice.error().code, Code::kDeadlineExceeded);
  } else {
    EXPECT_LE(choice->answer.lower_bound, 4);
    EXPECT_GE(choice->answer.cost, 4);
  }
}

TEST(ChooseTest, IsAsGoodAsTheBestOfAllGroupingsEachTriedToTheEnd) {
  for (const auto seed : sampled(60)) {
    std::mt19937_64 random(seed);
    RandomOptions made{.groups = 5, .devices = {2, 2, 1}};
    made.memory = seed % 3 == 0;
    made.links = seed % 2 == 0;
    made.launch = made.unsupported = seed % 5 == 0;
    const auto problem = random_problem(seed, made);
    std::vector<Counts> groupings;
    for (int i = 0; i < 4; ++i) {
      Counts counts;
      for (const auto& type : problem.types) {
        counts.push_back(static_cast<int>(random() % (type.devices.size() + 1)));
      }
      groupings.push_back(std::move(counts));
    }
    Options options;
    options.replicas = seed % 4 == 0;
    options.goal = seed % 7 == 0 ? Goal::kLatency : Goal::kThroughput;
    double least = kInfinite;
    for (const auto& counts : groupings) {
      const auto part = with_counts(problem, counts);
      if (part.types.empty()) continue;
      if (const auto best = brute_force(part, options)) least = std::min(least, best->cost);
    }
    const auto choice = choose(problem, groupings, options);
    ASSERT_EQ(static_cast<bool>(choice), least < kInfinite) << seed;
    if (!choice) continue;
    // Where a transfer's cost depends on who is at the other end, searches may stay above the best.
    EXPECT_GE(choice->answer.cost, least * (1 - 1e-7)) << seed;
    if (choice->answer.proved || !made.links) {
      EXPECT_NEAR(choice->answer.cost, least, 1e-7 * least) << seed;
    }
    EXPECT_LE(choice->answer.lower_bound, least * (1 + 1e-7)) << seed;
  }
}

}  // namespace
}  // namespace penstock::planner
