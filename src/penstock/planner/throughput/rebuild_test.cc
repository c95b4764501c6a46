// Rebuilding from one device to better splits or the optimum, and how often Probe asks its budget.
#include "penstock/planner/throughput/rebuild.h"

#include <numeric>

#include <gtest/gtest.h>

#include "penstock/planner/bounds/model.h"
#include "penstock/planner/bounds/prices.h"
#include "penstock/planner/problem/instance.h"
#include "penstock/planner/testing/test_brute_force.h"
#include "penstock/planner/testing/test_random_problem.h"
#include "penstock/planner/throughput/line.h"
#include "penstock/planner/throughput/linear_order.h"
#include "penstock/planner/throughput/probe.h"

namespace penstock::planner {
namespace {

Split on_one_device(const Problem& problem) {
  Stage stage{std::vector<int>(problem.groups.size()), 0, {0}};
  std::iota(stage.groups.begin(), stage.groups.end(), 0);
  return {{stage}};
}

/// Rounds until this many in a row find nothing; each split is checked on the way.
double rebuild(const Problem& problem, Split split, int in_vain, std::uint64_t seed) {
  Model model;
  model.instance = *make_instance(problem, Partner::kHighest);
  model.prices = make_prices(model.instance);
  Rebuilder rebuilder(model);
  Random random(seed);
  double period = evaluate(problem, split).period;
  for (int left = in_vain; left > 0; --left) {
    auto found = rebuilder.run(split, period * (1 - kPrecision), random, Budget());
    if (!found) continue;
    const auto evaluation = evaluate(problem, *found);
    EXPECT_TRUE(evaluation.violations.empty()) << evaluation.violations.front();
    EXPECT_LT(evaluation.period, period);
    period = evaluation.period;
    split = *std::move(found);
    left = in_vain + 1;
  }
  return period;
}

TEST(RebuildTest, ReachesTheOptimumWhereNoBlockIsNeeded) {
  for (const auto seed : sampled(60)) {
    const auto problem = random_problem(seed, {.groups = 7, .devices = {2, 1}});
    const auto best = brute_force(problem, {});
    ASSERT_TRUE(best);
    EXPECT_NEAR(rebuild(problem, on_one_device(problem), 20, seed), best->cost, 1e-8 * best->cost)
        << seed;
  }
}

TEST(RebuildTest, OnlyGivesBetterSplitsWhereBlocksAreMerged) {
  int better = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const auto problem = random_problem(seed, {.groups = 90, .devices = {3, 2}});
    const auto start = on_one_device(problem);
    if (rebuild(problem, start, 5, seed) < evaluate(problem, start).period) ++better;
  }
  EXPECT_EQ(better, 6);
}

TEST(Probe, AsksTheBudgetByTheWorkThatItDoes) {
  RandomOptions random;
  random.groups = 600;
  random.devices = {16};
  const auto problem = random_problem(1, random);
  Model model;
  model.instance = *make_instance(problem, Partner::kLowest);
  model.latency_cap = 1e9;  // Every end of a stage counts.
  model.prices = make_prices(model.instance);
  const Line line(model, given_order(model.instance));
  double period = 0;  // Eight devices would do, were values free.
  for (int g = 0; g < model.instance.groups; ++g) period += model.instance.time_of(g, 0) / 8;
  int asked = 0;
  const Budget budget(kInfinite, [&] {
    ++asked;
    return false;
  });
  Probe(line).run(period, budget);
  EXPECT_GT(asked, 5);
  Probe stopped(line);
  EXPECT_TRUE(stopped.run(period, Budget(kInfinite, [] { return true; })).empty());
}

}  // namespace
}  // namespace penstock::planner
