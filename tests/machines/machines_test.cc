#include <cstdlib>
#include <iostream>
#include <utility>

#include <gtest/gtest.h>

#include "penstock/planner/choose.h"
#include "tests/machines/exhaustive.h"
#include "tests/machines/machine.h"
#include "tests/support/sample.h"

namespace penstock::machines {
namespace {

/// Small networks of all kinds: the seed draws them.
Network small_network(std::uint64_t seed, int groups) {
  Network network;
  network.groups = groups;
  network.chain = seed % 3 == 0;
  network.has_caps = seed % 4 == 1;
  network.transfers = seed % 5 == 2 ? 0.5 : 0.05;
  return network;
}

void expect_the_best(const Machine& machine, std::uint64_t seed, int groups, bool replicas) {
  const auto problem = problem_of(machine, small_network(seed, groups), seed);
  planner::Options options;
  options.replicas = replicas;
  const double least = least_period(machine, problem, replicas);
  const auto choice = planner::choose(problem, machine.groupings.counts, options);
  ASSERT_EQ(static_cast<bool>(choice), least < planner::kInfinite) << seed;
  if (!choice) return;
  EXPECT_NEAR(choice->answer.cost, least, 1e-6 * least) << seed;
  EXPECT_TRUE(choice->answer.proved) << seed;
}

TEST(MachinesTest, TwoNodesOf32CoresAsExhaustiveSearch) {
  const auto machine = two_nodes();
  for (const auto seed : sampled(60)) {
    // Where transfers are dear or memory is short as well, trying all takes minutes.
    const auto network = small_network(seed, 3);
    const bool replicas = seed % 3 != 1 && !network.has_caps && network.transfers < 0.1;
    expect_the_best(machine, seed, 3, replicas);
  }
}

TEST(MachinesTest, EightFastAndEightSlowCoresAsExhaustiveSearch) {
  const auto machine = fast_and_slow();
  for (const auto seed : sampled(60)) expect_the_best(machine, seed, 3, seed % 3 != 1);
}

TEST(MachinesTest, FourCoresWithSiblingsAsExhaustiveSearch) {
  const auto machine = siblings();
  for (const auto seed : sampled(60)) {
    expect_the_best(machine, seed, 3 + static_cast<int>(seed % 3), seed % 3 != 1);
  }
}

TEST(MachinesTest, AQuotaOfTwoAndAHalfCpusAsExhaustiveSearch) {
  const auto machine = quota();
  for (const auto seed : sampled(60)) {
    expect_the_best(machine, seed, 3 + static_cast<int>(seed % 3), seed % 3 != 1);
  }
}

planner::Choice choose_for_large(const Network& network, double seconds) {
  const auto machine = two_nodes();
  planner::Options options;
  options.replicas = true;
  options.seconds = seconds;
  auto choice = planner::choose(problem_of(machine, network, 1), machine.groupings.counts, options);
  EXPECT_TRUE(choice) << choice.error().message();
  if (!choice) return {};
  std::cout << "gap " << choice->answer.gap << " after " << choice->answer.seconds << " s, "
            << machine.groupings.groupings[choice->grouping].text << ", " << choice->searched
            << " of " << machine.groupings.counts.size() << " groupings searched\n";
  EXPECT_LE(choice->answer.lower_bound, choice->answer.cost);
  EXPECT_TRUE(evaluate(choice->problem, choice->answer.split).violations.empty());
  return *std::move(choice);
}

/// Cuts along the chain with the CPUs that they take bound all groupings at once, and the first
/// plan that is tried is of those cuts.
TEST(MachinesTest, OnTwoNodesALargeChainIsNearlyProved) {
  for (const bool has_caps : {false, true}) {
    const auto choice = choose_for_large({.groups = 40, .chain = true, .has_caps = has_caps}, 60);
    EXPECT_LE(choice.answer.gap, 0.03) << has_caps;
  }
}

/// What is found depends on the time; that it is a plan, and that the bound is one, does not.
/// Longer with PENSTOCK_SECONDS.
TEST(MachinesTest, OnTwoNodesALargeNetworkGetsAPlanAndABound) {
  const char* const seconds = std::getenv("PENSTOCK_SECONDS");
  choose_for_large({.groups = 40, .has_caps = seconds != nullptr},
                   seconds == nullptr ? 5 : std::strtod(seconds, nullptr));
}

}  // namespace
}  // namespace penstock::machines
