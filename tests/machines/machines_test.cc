#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "penstock/planner/choose.h"
#include "penstock/session/plan_kinds.h"
#include "penstock/tune/groups.h"
#include "penstock/tune/test_graphs.h"
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
  const double least = least_cost(machine, problem, {.replicas = replicas});
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

void expect_the_shortest(const Machine& machine, std::uint64_t seed, int groups) {
  const auto problem = problem_of(machine, small_network(seed, groups), seed);
  planner::Options options;
  options.goal = planner::Goal::kLatency;
  const double least = least_cost(machine, problem, {.latency = true});
  const auto choice = planner::choose(problem, machine.groupings.counts, options);
  ASSERT_EQ(static_cast<bool>(choice), least < planner::kInfinite) << seed;
  if (!choice) return;
  EXPECT_NEAR(choice->answer.cost, least, 1e-6 * least) << seed;
  EXPECT_TRUE(choice->answer.proved) << seed;
}

TEST(MachinesTest, TheLeastLatencyIsAsExhaustiveSearchHasIt) {
  for (const auto& machine : {two_nodes(), fast_and_slow(), siblings(), quota()}) {
    for (const auto seed : sampled(40)) expect_the_shortest(machine, seed, 3);
  }
}

/// A chain whose nodes take what they take on a kind of group by two engines' laws, and a state
/// from one of them to itself or to one before it.
class Stateful {
 public:
  Stateful(const Machine& machine, std::uint64_t seed) : machine_(machine), random_(seed) {
    const auto first = random_() % 3, last = first + random_() % (3 - first);
    for (auto node = first; node <= last; ++node) {
      loop_.push_back(static_cast<graph::NodeId>(node));
    }
    for (int node = 0; node < 4; ++node) seconds_.push_back(between(1e-4, 3e-3));
    for (const auto* backend : {"scales", "fast"}) {
      const double scaling = backend[0] == 's' ? between(0.5, 1) : between(0, 0.5);
      tune::GroupCosts costs{tune::whole_cover(graph_, {backend, {}}), seconds_, {}};
      for (const auto& kind : machine.groupings.kinds) {
        const double pace = (kind.kind == 0 ? 1 : slow_) * (backend[0] == 's' ? 1 : 0.8);
        costs.kind_seconds.push_back(pace * between(0.95, 1.05) * sum() /
                                     std::pow(kind.width, scaling));
      }
      costs_.push_back(std::move(costs));
    }
  }

  void expect_the_best() {
    tune::HandingOver handing_over;
    handing_over.figures.seconds_per_transfer = 2e-5;
    const auto plans = tune::grouped(graph_, machine_.groupings, costs_, handing_over,
                                     {.loops = {loop_}, .seconds = 1000});
    ASSERT_TRUE(plans) << plans.error().message();
    ASSERT_FALSE(plans->empty());
    std::vector<int> alone;
    for (const auto node : loop_) alone.push_back(static_cast<int>(graph::index(node)));
    const double least =
        least_cost(machine_, problem(handing_over.figures), {.replicas = true, .alone = alone});
    EXPECT_NEAR(plans->front().period_seconds, least, 1e-6 * least);
    for (const auto& stage : plans->front().split.stages) {
      const bool loops = std::ranges::count(stage.nodes, loop_.front()) > 0;
      if (loops) {
        EXPECT_EQ(stage.devices.size(), 1U);
      }
    }
  }

 private:
  double between(double low, double high) {
    return low + (high - low) * static_cast<double>(random_() % 1000) / 1000;
  }
  [[nodiscard]] double sum() const {
    return std::accumulate(seconds_.begin(), seconds_.end(), 0.0);
  }

  planner::Problem problem(const cost::Figures& figures) {
    cost::GraphProblemOptions options;
    options.figures = figures;
    options.together = {loop_};
    std::vector<KindMode> modes;
    for (const auto& costs : costs_) {
      auto& mode = modes.emplace_back(KindMode{costs.cover.front().backend, {}});
      for (const double whole : costs.kind_seconds) {
        auto& own = mode.seconds.emplace_back(seconds_);
        for (double& time : own) time *= whole / sum();
      }
    }
    const auto& kinds = machine_.groupings.kinds;
    auto made = problem_of_kinds(graph_, machine_.groupings, options, modes,
                                 std::vector(kinds.size(), planner::kInfinite));
    EXPECT_TRUE(made);
    made->links.assign(kinds.size(), std::vector<planner::Link>(kinds.size()));
    return *std::move(made);
  }

  const Machine& machine_;
  std::mt19937_64 random_;
  const double slow_ = 1.7;
  const graph::Graph graph_ = tune::weighed({1, 1, 1, 1});
  std::vector<graph::NodeId> loop_;
  std::vector<double> seconds_;
  std::vector<tune::GroupCosts> costs_;
};

TEST(MachinesTest, WithAStateTheBestGroupingIsAsExhaustiveSearchHasIt) {
  for (const auto& machine : {fast_and_slow(), siblings(), quota()}) {
    for (const auto seed : sampled(30)) {
      SCOPED_TRACE(concat(machine.name, ", ", seed));
      Stateful(machine, seed).expect_the_best();
    }
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
    if (kSanitized && !has_caps) continue;
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
