// Optima beside brute force, bounds at any moment, and changes that keep or lower the optimum.
#include "penstock/planner/throughput/contiguous.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "penstock/planner/problem/index.h"
#include "penstock/planner/testing/test_brute_force.h"
#include "penstock/planner/testing/test_random_problem.h"
#include "penstock/planner/throughput/frontier.h"

namespace penstock::planner {
namespace {

Outcome search(const Problem& problem, const Options& options = {}) {
  return search_contiguous(problem, options, Budget());
}

bool is_proved(const Outcome& outcome) {
  return outcome.infeasible || outcome.lower_bound >= outcome.cost * (1 - 1e-9);
}

/// What must hold of any outcome, whatever is known of the optimum.
void expect_sound(const Problem& problem, const Outcome& outcome, double optimum) {
  EXPECT_LE(outcome.lower_bound, optimum * (1 + 1e-9));
  if (!outcome.split) return;
  const auto evaluation = evaluate(problem, *outcome.split);
  EXPECT_TRUE(evaluation.violations.empty()) << evaluation.violations.front();
  EXPECT_NEAR(evaluation.period, outcome.cost, 1e-9 * outcome.cost);
  EXPECT_GE(outcome.cost, optimum * (1 - 1e-9));
}

struct Case {
  RandomOptions random;
  Options options;
};

/// A problem with each feature in it or not, by chance.
Case draw_case(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto chance = [&](int percent) { return static_cast<int>(random() % 100) < percent; };
  Case drawn;
  auto& with = drawn.random;
  with.groups = 3 + static_cast<int>(random() % 5);
  with.devices.clear();
  for (int left = 3; left > 0 && with.devices.size() < 3;) {
    const int count = std::min(left, 1 + static_cast<int>(random() % 3));
    with.devices.push_back(count);
    left -= count;
    if (chance(20)) break;
  }
  const double communication[] = {0.1, 1, 1, 3};
  with.communication = communication[random() % 4];
  with.modes_per_type = chance(20) ? 2 : 1;
  with.whole_numbers = chance(30);
  with.memory = chance(30);
  with.overlap = chance(40);
  with.free_transfers = chance(30);
  with.launch = chance(20);
  with.unsupported = chance(20);
  with.colocated = chance(20);
  with.pinned = chance(20);
  with.backward = chance(25);
  drawn.options.replicas = chance(30);
  return drawn;
}

TEST(Contiguous, AgreesWithBruteForce) {
  std::uint64_t capped = 0, infeasible = 0;
  for (const auto seed : sampled(1500)) {
    SCOPED_TRACE(seed);
    auto [random, options] = draw_case(seed);
    const auto problem = random_problem(seed, random);
    auto best = brute_force(problem, options);
    if (best && seed % 3 == 0) {
      options.latency_cap =
          evaluate(problem, best->split).latency * (0.6 + 0.05 * static_cast<double>(seed % 9));
      best = brute_force(problem, options);
      ++capped;
    }
    const auto outcome = search(problem, options);
    expect_sound(problem, outcome, best ? best->cost : kInfinite);
    EXPECT_EQ(outcome.infeasible, !best);
    EXPECT_EQ(outcome.split.has_value(), best.has_value());
    EXPECT_TRUE(is_proved(outcome));
    infeasible += best ? 0 : 1;
  }
  EXPECT_GE(capped, in_sample(100));
  EXPECT_GE(infeasible, in_sample(50));
}

TEST(Frontier, RefutesAtOnceOnlyWhatNoSplitReaches) {
  std::uint64_t refuted = 0, with_transfers = 0;
  const Budget budget;
  for (const auto seed : sampled(1000)) {
    SCOPED_TRACE(seed);
    auto [random, options] = draw_case(seed);
    options.replicas = false;
    const auto problem = random_problem(seed, random);
    const auto best = brute_force(problem, options);
    if (!best) continue;
    Model model;
    model.instance = *make_instance(problem, Partner::kLowest);
    model.prices = make_prices(model.instance);
    Frontier frontier(model);
    EXPECT_FALSE(frontier.refutes(best->cost * (1 + 1e-9), budget));
    const double easy = period_bound(model.instance, model.prices, false);
    const double asked = easy + 0.1 * (best->cost - easy);
    const bool at_once = easy < 0.9 * best->cost && frontier.refutes(asked, budget);
    refuted += at_once ? 1 : 0;
    frontier.use_transfers();
    EXPECT_FALSE(frontier.refutes(best->cost * (1 + 1e-9), budget));
    EXPECT_GE(frontier.refutes(asked, budget), at_once);
    with_transfers += easy < 0.9 * best->cost && frontier.refutes(asked, budget) ? 1 : 0;
  }
  EXPECT_GE(refuted, in_sample(100));
  EXPECT_GE(with_transfers, refuted + in_sample(50));
}

TEST(Contiguous, BoundsHoldWhereCostsDependOnThePartnerOrThePlace) {
  for (const auto seed : sampled(400)) {
    SCOPED_TRACE(seed);
    auto [random, options] = draw_case(seed);
    random.links = seed % 2 == 0;
    random.frames = !random.links;
    random.memory = true;
    const auto problem = random_problem(seed, random);
    const auto best = brute_force(problem, options);
    expect_sound(problem, search(problem, options), best ? best->cost : kInfinite);
  }
}

TEST(Contiguous, BoundsHoldAtEveryMoment) {
  for (const auto seed : sampled(60)) {
    SCOPED_TRACE(seed);
    const auto [random, options] = draw_case(seed);
    const auto problem = random_problem(seed, random);
    const auto best = brute_force(problem, options);
    const double optimum = best ? best->cost : kInfinite;
    double last = 0;
    search_contiguous(problem, options, Budget(), [&](double lower_bound, double cost) {
      EXPECT_LE(lower_bound, optimum * (1 + 1e-9));
      EXPECT_GE(cost, optimum * (1 - 1e-9));
      EXPECT_GE(lower_bound, std::min(last, cost));
      last = lower_bound;
    });
  }
}

TEST(Contiguous, EndsWithWhatItKnowsWhenInterrupted) {
  RandomOptions random;
  random.groups = 300;
  random.devices = {5, 4, 3};
  const auto problem = random_problem(1, random);
  int looks = 0;
  const Budget budget(kInfinite, [&] { return ++looks > 20; });
  const auto outcome = search_contiguous(problem, {}, budget);
  ASSERT_TRUE(outcome.split);
  EXPECT_TRUE(evaluate(problem, *outcome.split).violations.empty());
  EXPECT_GT(outcome.lower_bound, 0);
  EXPECT_LE(outcome.lower_bound, outcome.cost);
}

TEST(Contiguous, IsNeverWorseThanTheUsersSplit) {
  for (const auto seed : sampled(20)) {
    SCOPED_TRACE(seed);
    RandomOptions random;
    random.groups = 24;
    random.devices = {3, 2};
    const auto problem = random_problem(seed, random);
    Options options;
    options.user_split = search(problem).split;
    const auto outcome = search_contiguous(problem, options, Budget(0, {}));
    ASSERT_TRUE(outcome.split);
    EXPECT_LE(outcome.cost, evaluate(problem, *options.user_split).period * (1 + 1e-9));
  }
}

TEST(Contiguous, LeavesAnInvalidProblemAlone) {
  const auto outcome = search(Problem{});
  EXPECT_FALSE(outcome.split);
  EXPECT_FALSE(outcome.infeasible);
}

// --- Changes that must not change the optimum, and such that can only help
// ------------------------

/// A problem of a size beyond brute force.
Problem draw_problem(std::uint64_t seed) {
  auto random = draw_case(seed).random;
  random.groups = 12 + static_cast<int>(seed % 20);
  random.devices = {2, 2};
  random.colocated = random.pinned = false;
  return random_problem(seed, random);
}

void expect_same_optimum(const Problem& one, const Problem& other, double factor = 1) {
  const auto first = search(one), second = search(other);
  EXPECT_TRUE(is_proved(first));
  EXPECT_TRUE(is_proved(second));
  ASSERT_EQ(first.infeasible, second.infeasible);
  if (first.split) {
    EXPECT_NEAR(first.cost * factor, second.cost, 2e-9 * second.cost);
  }
}

Problem relabelled(Problem problem, std::uint64_t seed) {
  std::vector<int> number(problem.groups.size());
  std::iota(number.begin(), number.end(), 0);
  std::ranges::shuffle(number, std::mt19937_64(seed));
  auto groups = problem.groups;
  for (std::size_t g = 0; g < number.size(); ++g) groups[at(number[g])] = problem.groups[g];
  problem.groups = groups;
  for (auto& value : problem.values) {
    value.producer = number[at(value.producer)];
    for (int& consumer : value.consumers) consumer = number[at(consumer)];
    std::ranges::sort(value.consumers);
  }
  for (auto& [before, after] : problem.order) {
    before = number[at(before)];
    after = number[at(after)];
  }
  std::ranges::reverse(problem.order);
  std::ranges::reverse(problem.values);
  return problem;
}

TEST(ContiguousInvariance, RelabelledGroups) {
  for (const auto seed : sampled(40)) {
    SCOPED_TRACE(seed);
    const auto problem = draw_problem(seed);
    expect_same_optimum(problem, relabelled(problem, seed));
  }
}

TEST(ContiguousInvariance, PermutedTypes) {
  for (const auto seed : sampled(40)) {
    SCOPED_TRACE(seed);
    const auto problem = draw_problem(seed);
    auto permuted = problem;
    std::ranges::reverse(permuted.types);
    for (auto& type : permuted.types) std::ranges::reverse(type.devices);
    const int last = static_cast<int>(problem.types.size()) - 1;
    for (auto& mode : permuted.modes) mode.type = last - mode.type;
    std::ranges::reverse(permuted.links);
    for (auto& row : permuted.links) std::ranges::reverse(row);
    expect_same_optimum(problem, permuted);
  }
}

TEST(ContiguousInvariance, ScaledUnits) {
  for (const auto seed : sampled(40)) {
    SCOPED_TRACE(seed);
    const auto problem = draw_problem(seed);
    const double factor = seed % 2 == 0 ? 1e-9 : 3.7e6;
    auto scaled = problem;
    for (auto& group : scaled.groups) {
      for (double& time : group.time) time *= factor;
    }
    for (auto& mode : scaled.modes) mode.launch *= factor;
    for (auto& value : scaled.values) value.transfer_time *= factor;
    for (auto& row : scaled.links) {
      for (auto& link : row) {
        link.latency *= factor;
        link.bandwidth /= factor;
      }
    }
    expect_same_optimum(problem, scaled, factor);
  }
}

TEST(ContiguousInvariance, AddedGroupsWithoutCost) {
  for (const auto seed : sampled(40)) {
    SCOPED_TRACE(seed);
    const auto problem = draw_problem(seed);
    auto added = problem;
    for (int i = 0; i < 5; ++i) {
      const int before = static_cast<int>((seed + 3 * at(i)) % problem.groups.size());
      const int fresh = static_cast<int>(added.groups.size());
      added.groups.push_back({"free", {}, std::vector<double>(problem.modes.size(), 0), 0});
      added.order.emplace_back(before, fresh);
      added.values.push_back({"nothing", before, {fresh}, 0, 0});
    }
    if (problem.links.empty()) expect_same_optimum(problem, added);
  }
}

TEST(ContiguousInvariance, GroupInTwoHalvesThatMustStayTogether) {
  for (const auto seed : sampled(40)) {
    SCOPED_TRACE(seed);
    const auto problem = draw_problem(seed);
    auto halved = problem;
    const int first = static_cast<int>(seed % problem.groups.size());
    const int second = static_cast<int>(problem.groups.size());
    for (double& time : halved.groups[at(first)].time) time /= 2;
    halved.groups[at(first)].memory /= 2;
    halved.groups.push_back(halved.groups[at(first)]);
    for (auto& [before, after] : halved.order) {
      if (before == first) before = second;
    }
    for (auto& value : halved.values) {
      if (value.producer == first) value.producer = second;
    }
    halved.order.emplace_back(first, second);
    halved.values.push_back({"between", first, {second}, 1e12, 1e12});
    auto together = halved;
    together.colocated.push_back({first, second});
    expect_same_optimum(problem, together);
  }
}

TEST(ContiguousMonotone, MoreDevicesMemoryOrBandwidthNeverHurt) {
  for (const auto seed : sampled(40)) {
    SCOPED_TRACE(seed);
    const auto problem = draw_problem(seed);
    const double cost = search(problem).cost;
    auto more_devices = problem;
    for (auto& type : more_devices.types) type.devices.push_back(type.name + "-more");
    auto more_memory = problem;
    for (auto& type : more_memory.types) type.memory *= 1.5;
    auto more_bandwidth = problem;
    for (auto& value : more_bandwidth.values) value.transfer_time /= 2;
    for (const auto& better : {more_devices, more_memory, more_bandwidth}) {
      EXPECT_LE(search(better).cost, cost * (1 + 2e-9));
    }
  }
}

}  // namespace
}  // namespace penstock::planner
