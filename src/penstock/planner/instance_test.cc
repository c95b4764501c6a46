// How groups are merged and numbered and how values are merged and priced; random orders are kept.
#include "penstock/planner/problem/instance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/planner/testing/test_random_problem.h"

namespace penstock::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Groups 0 .. n-1 of time 1 on two devices; what is between them is the test's.
Problem groups(int count) {
  Problem problem;
  problem.types.push_back({"a", {"a0", "a1"}, false, 100, Overlap::kSerial, true});
  problem.modes.push_back({"a", 0, 0.5});
  for (int g = 0; g < count; ++g) {
    problem.groups.push_back({"g" + std::to_string(g), {g}, {1.0 + g}, 10.0});
  }
  return problem;
}

std::vector<int> list(std::span<const int> items) {
  return {items.begin(), items.end()};
}

TEST(InstanceTest, NumbersGroupsInAStableTopologicalOrder) {
  auto problem = groups(4);
  problem.order = {{3, 0}, {0, 1}};
  const auto made = make_instance(problem, Partner::kLowest);
  ASSERT_TRUE(made);
  EXPECT_THAT(made->members.items, ElementsAre(2, 3, 0, 1));
  EXPECT_THAT(list(made->after[1]), ElementsAre(2));
  EXPECT_THAT(list(made->before[3]), ElementsAre(2));
  EXPECT_DOUBLE_EQ(made->time_of(1, 0), 4);
}

TEST(InstanceTest, MergesColocatedGroupsAndTheCirclesTheyMake) {
  auto problem = groups(5);
  problem.order = {{0, 1}, {1, 2}, {2, 3}, {3, 4}};
  problem.colocated = {{1, 3}};
  const auto made = make_instance(problem, Partner::kLowest);
  ASSERT_TRUE(made);
  ASSERT_EQ(made->groups, 3);
  EXPECT_THAT(list(made->members[1]), ElementsAre(1, 2, 3));
  EXPECT_DOUBLE_EQ(made->time_of(1, 0), 2 + 3 + 4);
  EXPECT_DOUBLE_EQ(made->memory[1], 30);
  const auto split = expand(*made, {{{{0, 1}, 0, {0}}, {{2}, 0, {1}}}});
  EXPECT_EQ(split, (Split{{{{0, 1, 2, 3}, 0, {0}}, {{4}, 0, {1}}}}));
}

TEST(InstanceTest, MergesEqualValuesAndDropsThoseOfOnePin) {
  auto problem = groups(4);
  problem.order = {{0, 1}, {0, 2}, {1, 3}};
  problem.colocated = {{1, 3}};
  problem.values = {{"x", 0, {1, 2}, 4, 1},
                    {"y", 0, {2, 3}, 2, 2},
                    {"inside", 1, {3}, 1, 5},
                    {"unread", 2, {}, 1, 5},
                    {"back", 2, {0}, 1, 7}};
  const auto made = make_instance(problem, Partner::kLowest);
  ASSERT_TRUE(made);
  ASSERT_EQ(made->values, 2);
  EXPECT_THAT(made->producer, ElementsAre(0, 2));
  EXPECT_THAT(list(made->pins[0]), ElementsAre(0, 1, 2));
  EXPECT_THAT(made->receive, ElementsAre(3, 7));
  EXPECT_THAT(made->send, ElementsAre(3, 7));
  EXPECT_THAT(list(made->values_of[2]), ElementsAre(0, 1));
}

TEST(InstanceTest, TakesTheLowestOrTheHighestPartner) {
  auto problem = groups(2);
  problem.types.push_back({"b", {"b0"}, false, kInfinite, Overlap::kSerial, true});
  problem.types.push_back({"c", {"c0"}, false, kInfinite, Overlap::kSerial, false});
  problem.modes.push_back({"b", 1, 0});
  problem.modes.push_back({"c", 2, 0});
  for (auto& group : problem.groups) group.time = {1, 1, 1};
  problem.values = {{"v", 0, {1}, 0, 0}};
  problem.links.assign(3, std::vector<Link>(3));
  problem.links[0] = {{1, 1}, {2, 1}, {3, 1}};
  problem.links[1] = {{10, 1}, {20, 1}, {30, 1}};
  problem.links[2] = {{100, 1}, {200, 1}, {300, 1}};
  const auto low = make_instance(problem, Partner::kLowest);
  const auto high = make_instance(problem, Partner::kHighest);
  ASSERT_TRUE(low && high);
  EXPECT_THAT(low->receive, ElementsAre(1, 2, 0));  // Type c pays nothing.
  EXPECT_THAT(high->receive, ElementsAre(100, 200, 0));
  EXPECT_THAT(low->send, ElementsAre(1, 10, 0));
  EXPECT_THAT(high->send, ElementsAre(3, 30, 0));  // One device of b: none to send to.
}

TEST(InstanceTest, RefusesMergedGroupsThatFitNowhere) {
  auto problem = groups(3);
  problem.colocated = {{0, 2}};
  problem.types[0].memory = 15;
  EXPECT_THAT(make_instance(problem, Partner::kLowest).error().message(),
              HasSubstr("groups 'g0' to 'g2' (2) must stay together and need 20 bytes"));
  problem.types[0].memory = 100;
  problem.modes.push_back({"a2", 0, 0});
  problem.groups[0].time = {1, kInfinite};
  problem.groups[1].time = {1, 1};
  problem.groups[2].time = {kInfinite, 1};
  EXPECT_THAT(make_instance(problem, Partner::kLowest).error().message(),
              HasSubstr("must stay together, but no device supports them all"));
}

TEST(InstanceTest, OfRandomProblemsRespectsTheirOrder) {
  RandomOptions options;
  options.groups = 12;
  options.colocated = options.backward = true;
  for (const auto seed : sampled(200)) {
    const auto problem = random_problem(seed, options);
    const auto made = make_instance(problem, Partner::kLowest);
    ASSERT_TRUE(made);
    std::vector<int> group_of(problem.groups.size());
    for (int g = 0; g < made->groups; ++g) {
      for (const int member : made->members[g]) group_of[static_cast<std::size_t>(member)] = g;
      for (const int after : made->after[g]) EXPECT_LT(g, after);
    }
    EXPECT_EQ(made->members.items.size(), problem.groups.size());
    for (const auto& [before, after] : problem.order) {
      EXPECT_LE(group_of[static_cast<std::size_t>(before)],
                group_of[static_cast<std::size_t>(after)]);
    }
  }
}

}  // namespace
}  // namespace penstock::planner
