// Least latencies beside brute force on random problems, and proofs for the public workloads.
#include "penstock/planner/latency/latency.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/planner/testing/test_brute_force.h"
#include "penstock/planner/testing/test_random_problem.h"
#include "penstock/planner/workload/workload.h"

namespace penstock::planner {
namespace {

using ::testing::IsEmpty;

constexpr double kRounding = 1e-6;

Options for_latency(int segments = 1) {
  Options options;
  options.goal = Goal::kLatency;
  options.segments_per_device = segments;
  return options;
}

/// The search agrees with brute force: exactly where the model is exact, else within its bound.
void compare(const RandomOptions& random, std::uint64_t seeds, const Options& options, bool exact) {
  for (const auto seed : sampled(seeds)) {
    SCOPED_TRACE(seed);
    const auto problem = random_problem(seed, random);
    const auto best = brute_force(problem, options);
    const auto found = search_latency(problem, options, exact ? Budget() : Budget(0.02, {}));
    if (!best) {
      EXPECT_FALSE(found.split);
      EXPECT_TRUE(found.infeasible || !exact);
      continue;
    }
    EXPECT_FALSE(found.infeasible);
    EXPECT_LE(found.lower_bound, best->cost * (1 + kRounding));
    if (exact) {
      EXPECT_NEAR(found.cost, best->cost, kRounding);
      EXPECT_NEAR(found.lower_bound, best->cost, kRounding);
    }
    if (!found.split) continue;
    const auto evaluation = evaluate(problem, *found.split);
    EXPECT_THAT(evaluation.violations, IsEmpty());
    EXPECT_NEAR(evaluation.latency, found.cost, kRounding);
    EXPECT_GE(found.cost, best->cost - kRounding);
  }
}

TEST(LatencyTest, AgreesWithBruteForceOnAcceleratorsAndCores) {
  RandomOptions random{.groups = 6, .devices = {2}, .memory = true, .unlimited = true};
  compare(random, 150, for_latency(), true);
  random.communication = 0.2;
  random.whole_numbers = true;
  compare(random, 100, for_latency(), true);
}

TEST(LatencyTest, AgreesWithBruteForceOnPipelines) {
  RandomOptions random{.groups = 6, .devices = {3}, .communication = 0.3, .memory = true};
  compare(random, 150, for_latency(), true);
  random.devices = {1, 2};
  random.modes_per_type = 2;
  random.launch = true;
  random.overlap = true;
  compare(random, 60, for_latency(), true);
}

TEST(LatencyTest, AgreesWithBruteForceOnColocatedGroups) {
  RandomOptions random{.groups = 6, .devices = {2}, .communication = 0.3, .memory = true};
  random.colocated = true;
  compare(random, 80, for_latency(), true);
  random.unlimited = true;
  compare(random, 150, for_latency(), true);
  random.unsupported = true;
  compare(random, 150, for_latency(), true);
}

TEST(LatencyTest, AgreesWithBruteForceOnPinnedGroups) {
  RandomOptions random{.groups = 5, .devices = {2, 1}, .communication = 0.3, .memory = true};
  random.pinned = true;
  random.free_transfers = true;
  compare(random, 80, for_latency(), true);
  random.unlimited = true;
  compare(random, 60, for_latency(), true);
}

TEST(LatencyTest, BoundsWhatItsModelOnlyRelaxes) {
  RandomOptions random{.groups = 5, .devices = {1, 1}, .communication = 0.5, .memory = true};
  random.links = true;
  compare(random, 60, for_latency(), false);
  random.unlimited = true;
  random.frames = true;
  compare(random, 60, for_latency(), false);
  random.links = random.frames = false;
  random.backward = true;
  compare(random, 60, for_latency(), false);
}

TEST(LatencyTest, AgreesWithBruteForceOnSeveralSegmentsPerDevice) {
  RandomOptions random{
      .groups = 5, .devices = {2}, .communication = 0.3, .memory = true, .unlimited = true};
  compare(random, 40, for_latency(2), true);
  random.unlimited = false;
  compare(random, 60, for_latency(3), true);
  random.links = random.backward = true;
  compare(random, 60, for_latency(2), true);
}

TEST(LatencyTest, BoundsSeveralSegmentsPerDeviceOfLargeProblems) {
  const auto problem = random_problem(1, {.groups = 30, .devices = {3}});
  const auto found = search_latency(problem, for_latency(2), Budget(0.1, {}));
  ASSERT_TRUE(found.split);
  EXPECT_THAT(evaluate(problem, *found.split).violations, IsEmpty());
  EXPECT_GT(found.lower_bound, 0);
  EXPECT_LE(found.lower_bound, found.cost);
}

TEST(LatencyTest, ObeysTheLatencyCapWithSeveralSegmentsPerDevice) {
  const auto problem = random_problem(3, {.groups = 5, .devices = {2}, .communication = 0.3});
  auto options = for_latency(2);
  const auto least = brute_force(problem, options);
  ASSERT_TRUE(least);
  options.latency_cap = least->cost;
  EXPECT_TRUE(search_latency(problem, options, {}).split);
  options.latency_cap = least->cost * 0.99;
  const auto none = search_latency(problem, options, {});
  EXPECT_FALSE(none.split);
  EXPECT_TRUE(none.infeasible);
}

TEST(LatencyTest, ObeysTheLatencyCap) {
  const auto problem = random_problem(3, {.groups = 6, .devices = {2}});
  auto options = for_latency();
  const double least = search_latency(problem, options, {}).cost;
  options.latency_cap = least * 0.99;
  const auto none = search_latency(problem, options, {});
  EXPECT_FALSE(none.split);
  EXPECT_TRUE(none.infeasible);
  options.latency_cap = least;
  EXPECT_TRUE(search_latency(problem, options, {}).split);
}

TEST(LatencyTest, KeepsTheUsersSplitWithoutTime) {
  const auto problem = random_problem(5, {.groups = 7, .devices = {2}, .memory = true});
  auto options = for_latency();
  options.user_split = search_latency(problem, options, {}).split;
  ASSERT_TRUE(options.user_split);
  const auto found = search_latency(problem, options, Budget(0, {}));
  ASSERT_TRUE(found.split);
  EXPECT_LE(found.cost, evaluate(problem, *options.user_split).latency * (1 + kRounding));
}

struct PublicCase {
  const char* file;
  double known;    ///< The best feasible one published: planner.md §2.6.
  double optimum;  ///< Proved by this search.
};
void PrintTo(const PublicCase& made, std::ostream* out) {
  *out << made.file;
}

class PublicLatencyTest : public ::testing::TestWithParam<PublicCase> {};

TEST_P(PublicLatencyTest, ProvesTheOptimum) {
  const char* folder = std::getenv("PENSTOCK_TEST_WORKLOADS");
  if (folder == nullptr) GTEST_SKIP() << "set PENSTOCK_TEST_WORKLOADS to the folder of workloads";
  WorkloadOptions workload;
  workload.goal = Goal::kLatency;
  const auto problem =
      read_workload(std::filesystem::path(folder) / "latency" / GetParam().file, workload);
  ASSERT_TRUE(problem) << problem.error().message();
  const auto found = search_latency(*problem, for_latency(), kSanitized ? Budget(2, {}) : Budget());
  ASSERT_TRUE(found.split);
  const auto evaluation = evaluate(*problem, *found.split);
  EXPECT_THAT(evaluation.violations, IsEmpty());
  EXPECT_NEAR(evaluation.latency, found.cost, 1e-9 * found.cost);
  EXPECT_LE(found.lower_bound, GetParam().optimum * (1 + 1e-6));
  if (kSanitized) return;
  EXPECT_LE(found.cost, GetParam().known * (1 + 1e-5));
  EXPECT_NEAR(found.cost, GetParam().optimum, 1e-6 * found.cost);
  EXPECT_NEAR(found.lower_bound, found.cost, 1e-8 * found.cost);
}

INSTANTIATE_TEST_SUITE_P(
    , PublicLatencyTest,
    ::testing::Values(PublicCase{"LayerGraphs/bert24_inference.json", 100.219, 100.218500},
                      PublicCase{"LayerGraphs/gnmt_inference.json", 232.24, 225.647891},
                      PublicCase{"LayerGraphs/resnet50_inference.json", 1443.793, 1156.881281},
                      PublicCase{"OperatorGraphs/bert_l-12_inference.json", 867.839, 729.564611},
                      PublicCase{"OperatorGraphs/bert_l-3_inference.json", 408.483, 408.474408},
                      PublicCase{"OperatorGraphs/resnet50_inference.json", 839.536, 651.120759}));

}  // namespace
}  // namespace penstock::planner
