// Random small problems of every kind beside brute force, and searches that are cut off early.
#include "penstock/planner/search/small_search.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/planner/answer.h"
#include "penstock/planner/testing/test_brute_force.h"
#include "penstock/planner/testing/test_random_problem.h"

namespace penstock::planner {
namespace {

using ::testing::IsEmpty;

constexpr std::int64_t kManyNodes = 10'000'000;

Options with_segments(int segments, Goal goal = Goal::kThroughput) {
  Options options;
  options.segments_per_device = segments;
  options.goal = goal;
  return options;
}

/// The search ends, and finds what brute force finds.
void compare(const Problem& problem, const Options& options) {
  const auto best = brute_force(problem, options);
  const auto found = search_small(problem, options, kInfinite, kManyNodes, Budget());
  ASSERT_TRUE(found.ended);
  ASSERT_EQ(found.split.has_value(), best.has_value());
  if (!best) return;
  const auto judged = evaluate(problem, *found.split);
  EXPECT_THAT(judged.violations, IsEmpty());
  EXPECT_EQ(cost_of(judged, options.goal), found.cost);
  EXPECT_LE(judged.latency, options.latency_cap);
  EXPECT_LE(most_on_a_device(*found.split), options.segments_per_device);
  EXPECT_NEAR(found.cost, best->cost, 1e-9 * best->cost);
  const auto none = search_small(problem, options, best->cost, kManyNodes, Budget());
  EXPECT_TRUE(none.ended);
  EXPECT_FALSE(none.split);
}

/// Every seed has another mixture of what problems can have.
RandomOptions mixture(std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  const auto one_in = [&](std::uint64_t count) { return draw() % count == 0; };
  RandomOptions random;
  random.groups = 3 + static_cast<int>(draw() % 4);
  random.devices = std::vector<std::vector<int>>{{2}, {1, 1}, {3}, {1, 2}}[draw() % 4];
  random.communication = one_in(3) ? 1 : 0.3;
  random.whole_numbers = one_in(5);
  random.memory = one_in(2);
  random.overlap = one_in(5);
  random.free_transfers = one_in(5);
  random.links = one_in(5);
  random.launch = one_in(4);
  random.unsupported = one_in(5);
  random.colocated = one_in(5);
  random.pinned = one_in(6);
  random.backward = one_in(5);
  random.frames = one_in(6);
  random.unlimited = one_in(4) && random.groups < 6;
  if (one_in(6) && random.groups < 6) random.modes_per_type = 2;
  return random;
}

int segments_for(const Problem& problem, std::uint64_t seed) {
  return problem.groups.size() < 5 ? 3 : 1 + static_cast<int>(seed / 3 % 2);
}

TEST(SmallSearchTest, AgreesWithBruteForceOnPeriods) {
  for (const auto seed : sampled(300)) {
    SCOPED_TRACE(seed);
    const auto problem = random_problem(seed, mixture(seed));
    compare(problem, with_segments(segments_for(problem, seed)));
  }
}

TEST(SmallSearchTest, AgreesWithBruteForceOnLatencies) {
  for (const auto seed : sampled(300, 1000)) {
    SCOPED_TRACE(seed);
    const auto problem = random_problem(seed, mixture(seed));
    compare(problem, with_segments(segments_for(problem, seed), Goal::kLatency));
  }
}

TEST(SmallSearchTest, AgreesWithBruteForceUnderALatencyCap) {
  for (const auto seed : sampled(100, 2000)) {
    SCOPED_TRACE(seed);
    const auto problem = random_problem(seed, mixture(seed));
    auto options = with_segments(segments_for(problem, seed), Goal::kLatency);
    const auto least = brute_force(problem, options);
    if (!least) continue;
    options.goal = Goal::kThroughput;
    for (const double factor : {0.99, 1.0, 1.1}) {
      options.latency_cap = factor * least->cost;
      compare(problem, options);
    }
  }
}

TEST(SmallSearchTest, ClaimsNothingWhereItIsCutOff) {
  const auto problem = random_problem(1, {.groups = 10, .devices = {3}});
  const auto few = search_small(problem, with_segments(2), kInfinite, 50, Budget());
  EXPECT_FALSE(few.ended);
  const Budget soon(kInfinite, [left = 1]() mutable { return left-- <= 0; });
  EXPECT_FALSE(search_small(problem, with_segments(2), kInfinite, kManyNodes, soon).ended);
  EXPECT_FALSE(search_small(random_problem(1, {.groups = 17}), with_segments(2), kInfinite,
                            kManyNodes, Budget())
                   .ended);
}

}  // namespace
}  // namespace penstock::planner
