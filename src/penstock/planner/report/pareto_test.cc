// Fronts of small random problems beside those of all splits, and a period traded for memory.
#include "penstock/planner/report/pareto.h"

#include <algorithm>
#include <array>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/planner/testing/test_brute_force.h"
#include "penstock/planner/testing/test_random_problem.h"

namespace penstock::planner {
namespace {

using ::testing::ElementsAre;

/// Period, latency, devices, memory.
using Costs = std::array<double, 4>;

Costs costs_of(const ParetoPoint& point) {
  return {point.period, point.latency, static_cast<double>(point.devices), point.memory};
}

Costs costs_of(const Split& split, const Evaluation& found) {
  std::set<int> devices;
  double memory = 0;
  for (const auto& stage : split.stages) devices.insert(stage.devices.begin(), stage.devices.end());
  for (const auto& device : found.devices) memory = std::max(memory, device.memory);
  return {found.period, found.latency, static_cast<double>(devices.size()), memory};
}

bool as_good(const Costs& a, const Costs& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a.at(i) > b.at(i) * (1 + 1e-7)) return false;
  }
  return true;
}

std::vector<Costs> true_front(const Problem& problem) {
  std::vector<Costs> front;
  each_split(problem, {}, [&](const Split& split, const Evaluation& found) {
    const auto costs = costs_of(split, found);
    for (const auto& other : front) {
      if (as_good(other, costs)) return;
    }
    std::erase_if(front, [&](const Costs& other) { return as_good(costs, other); });
    front.push_back(costs);
  });
  return front;
}

/// Each listed plan is what it says it is, and no other listed one is as good in everything.
void check_points(const Problem& problem, const std::vector<ParetoPoint>& front) {
  for (const auto& point : front) {
    const auto found = evaluate(problem, point.split);
    ASSERT_TRUE(found.violations.empty()) << found.violations.front();
    ASSERT_EQ(costs_of(point.split, found), costs_of(point));
    ASSERT_LE(point.lower_bound, point.period);
    for (const auto& other : front) {
      ASSERT_TRUE(&other == &point || !as_good(costs_of(other), costs_of(point)));
    }
  }
}

void agree(const RandomOptions& random, std::uint64_t count) {
  for (const auto seed : sampled(count)) {
    SCOPED_TRACE(seed);
    const auto problem = random_problem(seed, random);
    const auto front = pareto_front(problem, {}, kInfinite);
    ASSERT_NO_FATAL_FAILURE(check_points(problem, front));
    for (const auto& costs : true_front(problem)) {
      const bool listed = std::ranges::any_of(
          front, [&](const ParetoPoint& point) { return as_good(costs_of(point), costs); });
      ASSERT_TRUE(listed) << ::testing::PrintToString(costs);
    }
  }
}

TEST(ParetoTest, MissesNothingOfSmallProblems) {
  RandomOptions random;
  random.groups = 6;
  agree(random, 15);
  random.memory = true;
  agree(random, 10);
}

TEST(ParetoTest, MissesNothingOfMixedDevices) {
  RandomOptions random;
  random.groups = 5;
  random.devices = {2, 1};
  random.whole_numbers = true;
  agree(random, 25);
}

/// a (4, 1 byte) before b and c (3, 10 bytes each), on two devices.
TEST(ParetoTest, TradesThePeriodForMemory) {
  Problem problem;
  problem.types.push_back({"a", {"a0", "a1"}});
  problem.modes.push_back({"a", 0, 0});
  problem.groups = {{"a", {0}, {4}, 1}, {"b", {1}, {3}, 10}, {"c", {2}, {3}, 10}};
  problem.values = {{"v", 0, {1, 2}, 0, 1}};
  problem.order = {{0, 1}, {0, 2}};
  std::vector<Costs> found;
  for (const auto& point : pareto_front(problem, {}, kInfinite)) {
    found.push_back(costs_of(point));
    EXPECT_TRUE(point.proved);
  }
  EXPECT_THAT(found, ElementsAre(Costs{7, 12, 2, 20}, Costs{8, 12, 2, 11}, Costs{10, 10, 1, 21}));
}

}  // namespace
}  // namespace penstock::planner
