// Merging groups keeps the optimum; no rule for groups is applied where it would be wrong.
#include "penstock/planner/problem/contract.h"

#include <string>

#include <gtest/gtest.h>

#include "penstock/planner/testing/test_brute_force.h"
#include "penstock/planner/testing/test_random_problem.h"
#include "penstock/planner/throughput/contiguous.h"

namespace penstock::planner {
namespace {

/// A chain of groups on alike devices; value i goes from group i to group i + 1.
Problem chain(const std::vector<double>& times, const std::vector<double>& costs, int devices) {
  Problem problem;
  problem.types.push_back({.name = "device"});
  for (int d = 0; d < devices; ++d)
    problem.types[0].devices.push_back("device" + std::to_string(d));
  problem.modes.push_back({"mode", 0, 0});
  for (std::size_t g = 0; g < times.size(); ++g) {
    problem.groups.push_back({std::to_string(g), {}, {times[g]}, 0});
  }
  for (std::size_t v = 0; v < costs.size(); ++v) {
    const int from = static_cast<int>(v);
    problem.values.push_back({std::to_string(v), from, {from + 1}, 0, costs[v]});
    problem.order.emplace_back(from, from + 1);
  }
  return problem;
}

int groups_after(const Problem& problem) {
  return contract(*make_instance(problem, Partner::kLowest)).groups;
}

double optimum(const Problem& problem, const Options& options = {}) {
  return search_contiguous(problem, options, Budget()).cost;
}

TEST(Contract, MergesWhatCostsMoreToCutThanToMove) {
  const auto problem = chain({4, 1, 4}, {2, 0.5}, 2);
  EXPECT_EQ(groups_after(problem), 2);  // Group 1 moves to group 0: 2 >= 1 + 0.5.
  EXPECT_EQ(optimum(problem), 5.5);
}

TEST(Contract, KeepsTheOptimum) {
  std::uint64_t merged = 0;
  for (const auto seed : sampled(300)) {
    SCOPED_TRACE(seed);
    RandomOptions random;
    random.groups = 7;
    random.devices = {2, 1};
    random.communication = 2;
    random.memory = seed % 3 == 0;
    random.overlap = seed % 4 == 0;
    random.unsupported = seed % 5 == 0;
    const auto problem = random_problem(seed, random);
    const auto instance = contract(*make_instance(problem, Partner::kLowest));
    merged += random.groups - instance.groups;
    auto together = problem;
    for (int g = 0; g < instance.groups; ++g) {
      const auto members = instance.members[g];
      if (members.size() > 1) together.colocated.emplace_back(members.begin(), members.end());
    }
    const auto free = brute_force(problem, {}), tied = brute_force(together, {});
    ASSERT_EQ(free.has_value(), tied.has_value());
    if (free) {
      EXPECT_NEAR(free->cost, tied->cost, 1e-9 * free->cost);
    }
  }
  EXPECT_GE(merged, in_sample(100));
}

// Rules that are proved for the serial load, where they would be wrong.

TEST(SafeRules, NoContractionWhereTransfersOverlap) {
  // Serial: group 1 belongs to group 0, for 2 >= 1 + 1. Overlapped, the transfer costs nothing.
  auto problem = chain({4, 1, 3}, {2, 1}, 2);
  problem.types[0].overlap = Overlap::kFullDuplex;
  EXPECT_EQ(groups_after(problem), 3);
  EXPECT_EQ(optimum(problem), 4);
  problem.colocated = {{0, 1}};
  EXPECT_EQ(optimum(problem), 5);
}

TEST(SafeRules, NoContractionWhereMemoryBinds) {
  auto problem = chain({4, 1, 3}, {2, 1}, 2);
  for (auto& group : problem.groups) group.memory = 6;
  problem.types[0].memory = 12;
  problem.groups[0].memory = 10;
  EXPECT_EQ(groups_after(problem), 3);
  EXPECT_EQ(optimum(problem), 6);
  problem.colocated = {{0, 1}};
  EXPECT_FALSE(brute_force(problem, {}));
}

TEST(SafeRules, NoPullWhereTransfersOverlap) {
  // {0}, {1, 2}, {3} is the only split with period 6. Serial, group 1 could be pulled to the first
  // stage: cutting 5 newly is no more than its time 5. Overlapped, that stage's transfers count
  // alone.
  auto problem = chain({1, 5, 1, 6}, {0, 5, 3}, 3);
  problem.types[0].overlap = Overlap::kHalfDuplex;
  EXPECT_EQ(optimum(problem), 6);
  EXPECT_EQ(brute_force(problem, {})->cost, 6);
  problem.colocated = {{0, 1}};
  EXPECT_EQ(optimum(problem), 7);
}

TEST(SafeRules, NoPullWhereLatencyIsCapped) {
  // Group 2 cuts nothing newly, wherever it goes; before group 1 it delays it beyond the cap.
  auto problem = chain({1, 5}, {0}, 3);
  problem.groups.push_back({"2", {}, {5}, 0});
  Options options;
  options.latency_cap = 7;
  EXPECT_EQ(optimum(problem, options), 5);
}

TEST(SafeRules, NoPullWhereMemoryIsFull) {
  auto problem = chain({1, 2, 9}, {0, 0}, 2);
  for (auto& group : problem.groups) group.memory = 1;
  problem.types[0].memory = 2;
  EXPECT_EQ(optimum(problem), 9);
  problem.groups[0].memory = 2;  // Now group 1 can not go with it.
  EXPECT_EQ(optimum(problem), 11);
}

}  // namespace
}  // namespace penstock::planner
