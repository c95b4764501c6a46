// Answers beside brute force on random problems, reported bounds, explanations and refusals.
#include "penstock/planner/solve.h"

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/planner/testing/test_brute_force.h"
#include "penstock/planner/testing/test_chain.h"
#include "penstock/planner/testing/test_random_problem.h"
#include "penstock/planner/workload/workload.h"

namespace penstock::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SolveTest, FindsProvesAndExplains) {
  const auto answer = solve(chain_of({4, 3, 2, 5}), {});
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_DOUBLE_EQ(answer->cost, 8);
  EXPECT_TRUE(answer->proved);
  EXPECT_EQ(answer->binding.kind, Binding::Kind::kCompute);
  ASSERT_TRUE(answer->runner_up);
  EXPECT_FALSE(same_stages(answer->runner_up->split, answer->split));
  EXPECT_GE(answer->runner_up->cost, 8);
  std::vector<std::string> names;
  for (const auto& baseline : answer->baselines) names.push_back(baseline.name);
  EXPECT_THAT(names, ElementsAre("single_device", "replicate_all", "equal_split", "one_order",
                                 "torchgpipe", "pipedream"));
}

TEST(SolveTest, SeveralStagesMayPartWhatLiesBetweenColocatedGroups) {
  auto problem = chain_of({3, 3, 3});
  for (auto& value : problem.values) value.transfer_time = 0.1;
  problem.colocated = {{0, 2}};
  Options options;
  EXPECT_DOUBLE_EQ(solve(problem, options)->cost, 9);
  options.segments_per_device = 2;
  const auto answer = solve(problem, options);
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_DOUBLE_EQ(answer->cost, 6.2);
  EXPECT_TRUE(answer->proved);
  for (auto& group : problem.groups) group.memory = 40;  // All three fit no device.
  const auto tight = solve(problem, options);
  ASSERT_TRUE(tight) << tight.error().message();
  EXPECT_DOUBLE_EQ(tight->cost, 6.2);
  options.segments_per_device = 1;
  EXPECT_THAT(solve(problem, options).error().message(),
              HasSubstr("must stay together and need 120"));
}

TEST(SolveTest, NamesTheGroupThatCannotBeDivided) {
  const auto answer = solve(chain_of({1, 9}), {});
  ASSERT_TRUE(answer);
  EXPECT_DOUBLE_EQ(answer->cost, 10);
  const auto heavy = solve(chain_of({3, 9}), {});
  ASSERT_TRUE(heavy);
  EXPECT_DOUBLE_EQ(heavy->cost, 10);
  EXPECT_EQ(heavy->binding.kind, Binding::Kind::kGroup);
  EXPECT_EQ(heavy->binding.group, "g1");
}

TEST(SolveTest, SaysThatMemoryBinds) {
  auto problem = chain_of({1, 1, 1, 9});
  problem.values[2].transfer_time = 0;
  problem.groups[1].memory = 90;
  problem.groups[0].memory = 5;
  const auto answer = solve(problem, {});
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(answer->binding.kind, Binding::Kind::kMemory);
}

/// Two groups that both are faster on the accelerator, which has memory for one.
TEST(SolveTest, SaysWhatBindsTheLatency) {
  Problem problem;
  problem.types.push_back({"accelerator", {"a0"}, false, 10, Overlap::kSerial, true});
  problem.types.push_back({"cpu", {}, true, kInfinite, Overlap::kSerial, false});
  problem.modes = {{"accelerator", 0, 0}, {"cpu", 1, 0}};
  problem.groups = {{"a", {0}, {10, 100}, 10}, {"b", {1}, {9, 20}, 10}};
  Options options;
  options.goal = Goal::kLatency;
  const auto answer = solve(problem, options);
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_DOUBLE_EQ(answer->cost, 20);
  EXPECT_EQ(answer->binding.kind, Binding::Kind::kMemory);
  problem.types[0].memory = kInfinite;
  const auto free = solve(problem, options);
  ASSERT_TRUE(free) << free.error().message();
  EXPECT_EQ(to_string(free->binding), "the longest path of one frame");
}

/// What is told while solving moves one way only, and ends at the answer.
void check_report(const Problem& problem, Options options) {
  std::vector<std::pair<double, double>> told;
  options.report = [&](double lower, double cost) { told.emplace_back(lower, cost); };
  const auto answer = solve(problem, options);
  ASSERT_TRUE(answer) << answer.error().message();
  ASSERT_GE(told.size(), 2);
  for (std::size_t i = 1; i < told.size(); ++i) {
    EXPECT_GE(told[i].first, told[i - 1].first);
    EXPECT_LE(told[i].second, told[i - 1].second);
    EXPECT_NE(told[i], told[i - 1]);
  }
  EXPECT_NEAR(told.back().first, answer->lower_bound, 1e-9 * answer->cost);
  EXPECT_NEAR(told.back().second, answer->cost, 1e-9 * answer->cost);
}

TEST(SolveTest, ReportsBoundsThroughAllSearches) {
  RandomOptions random;
  random.groups = 9;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    const auto problem = random_problem(seed, random);
    Options options;
    check_report(problem, options);
    options.latency_cap = 1.01 * solve(problem, options)->evaluation.latency;
    check_report(problem, options);
    options.latency_cap = kInfinite;
    options.goal = Goal::kLatency;
    check_report(problem, options);
    options.goal = Goal::kThroughput;
    options.segments_per_device = 2;
    options.seconds = 0.3;
    check_report(problem, options);
  }
}

TEST(SolveTest, SaysWhyThereIsNoSplit) {
  auto problem = chain_of({1, 1, 1});
  for (auto& group : problem.groups) group.memory = 60;
  EXPECT_EQ(
      solve(problem, {}).error().message(),
      "no plan exists: 3 groups of 180 bytes together (the largest, 'g0', of 60) cannot be "
      "divided among 2 'a' of 100 bytes (200 together); give each more memory, or add devices");
  problem.groups[0].memory = 90;
  EXPECT_EQ(solve(problem, {}).error().message(),
            "no plan exists: 3 groups (the largest is 'g0') need 210 bytes together, more than 2 "
            "'a' of 100 bytes (200 together); give each more memory, or add such devices");
  EXPECT_EQ(solve(problem, {}).error().code, Code::kFailedPrecondition);
  Options options;
  options.latency_cap = 1;
  EXPECT_THAT(solve(chain_of({1, 1}), options).error().message(),
              HasSubstr("has a latency of at most"));
}

TEST(SolveTest, SaysWhereSeveralSegmentsWouldFit) {
  auto problem = chain_of({1, 1, 1});
  for (const int g : {0, 2}) problem.groups[static_cast<std::size_t>(g)].memory = 45;
  problem.groups[1].memory = 90;
  Options options;
  EXPECT_THAT(solve(problem, options).error().message(),
              HasSubstr("several segments per device (--segments-per-device) would fit"));
  options.segments_per_device = 2;
  EXPECT_TRUE(solve(problem, options));
}

TEST(SolveTest, NamesTheOnlyTypeThatSupportsWhatDoesNotFit) {
  auto problem = chain_of({1, 1, 1});
  problem.types.push_back({"b", {"b0"}, false, 1000, Overlap::kSerial, true});
  problem.modes.push_back({"b", 1, 0});
  for (auto& group : problem.groups) {
    group.memory = 70;
    group.time.push_back(kInfinite);
  }
  EXPECT_EQ(
      solve(problem, {}).error().message(),
      "no plan exists: 3 groups that nothing else supports (the largest is 'g0') need 210 "
      "bytes together, more than 2 'a' of 100 bytes (200 together); give each more memory, or "
      "add such devices");
  problem.groups[1].time[1] = 1;
  const auto answer = solve(problem, {});
  EXPECT_TRUE(answer) << answer.error().message();
}

TEST(SolveTest, RefusesAUserSplitThatIsNone) {
  Options options;
  options.user_split = Split{{{{1}, 0, {0}}, {{0}, 0, {1}}}};
  EXPECT_THAT(solve(chain_of({1, 1}), options).error().message(),
              HasSubstr("the given split: stage 0"));
}

/// Compares with brute force: bounds must hold, and proofs be right, and be there where the search
/// is exact.
void agree_on(const Problem& problem, const Options& options, bool exact = false) {
  const auto best = brute_force(problem, options);
  const auto answer = solve(problem, options);
  if (!best) {
    ASSERT_FALSE(answer);
    ASSERT_EQ(answer.error().code, Code::kFailedPrecondition) << answer.error().message();
    return;
  }
  ASSERT_TRUE(answer) << answer.error().message();
  ASSERT_GE(answer->cost, best->cost * (1 - 1e-9));
  ASSERT_LE(answer->lower_bound, best->cost * (1 + 1e-9));
  if (exact) {
    ASSERT_TRUE(answer->proved) << answer->cost << " and " << answer->lower_bound;
  }
  if (answer->proved) {
    ASSERT_LE(answer->cost, best->cost * (1 + 2 * kProofGap));
  }
  for (const auto& baseline : answer->baselines) {
    if (!baseline.competes()) continue;
    ASSERT_LE(answer->cost, cost_of(baseline.evaluation, options.goal) * (1 + 1e-9));
  }
}

void agree(const RandomOptions& random, const Options& options, std::uint64_t count) {
  for (const auto seed : sampled(count)) {
    SCOPED_TRACE(seed);
    const auto problem = random_problem(seed, random);
    ASSERT_NO_FATAL_FAILURE(agree_on(problem, options));
  }
}

TEST(SolveTest, OfEqualPeriodsTakesTheShorterLatencyThatItFinds) {
  RandomOptions random;
  random.groups = 12;
  random.whole_numbers = true;  // Many plans of one period.
  int shorter = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const auto problem = random_problem(seed, random);
    const auto first = solve_unexplained(problem, {}), answer = solve(problem, {});
    ASSERT_TRUE(first && answer);
    EXPECT_NEAR(answer->cost, first->cost, 1e-9 * first->cost);
    EXPECT_LE(answer->evaluation.latency, first->evaluation.latency * (1 + 1e-9));
    shorter += answer->evaluation.latency < 0.99 * first->evaluation.latency ? 1 : 0;
  }
  EXPECT_GT(shorter, 0);
}

/// Where the search has no time, what it starts from is answered.
TEST(SolveTest, NoRunnerUpIsCheaperThanTheAnswer) {
  RandomOptions random;
  random.groups = 14;
  random.devices = {3};
  random.memory = true;
  Options options;
  options.segments_per_device = 2;
  options.seconds = 0;
  int answered = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto answer = solve(random_problem(seed, random), options);
    if (!answer || !answer->runner_up) continue;
    ++answered;
    EXPECT_GE(answer->runner_up->cost, answer->cost * (1 - 1e-9)) << seed;
  }
  EXPECT_GT(answered, 0);
}

/// What stands still for a moment ends one of its steps early, whichever it is in then.
TEST(SolveTest, NoRunnerUpIsCheaperWhereTheTimeIsShortForAMoment) {
  RandomOptions random;
  random.groups = 14;
  random.devices = {3};
  random.memory = true;
  const auto problem = random_problem(3, random);
  int answered = 0;
  for (int moment = 1; moment <= 60; ++moment) {
    int asked = 0;
    double told = kInfinite;
    Options options;
    options.segments_per_device = 2;
    options.seconds = 0;
    options.report = [&](double, double cost) { told = cost; };
    options.interrupted = [&] { return ++asked == moment; };
    const auto answer = solve(problem, options);
    if (!answer || !answer->runner_up) continue;
    ++answered;
    EXPECT_GE(answer->runner_up->cost, answer->cost * (1 - 1e-9)) << moment;
    EXPECT_FALSE(same_stages(answer->runner_up->split, answer->split)) << moment;
    EXPECT_NEAR(told, answer->cost, 1e-9 * answer->cost) << moment;
  }
  EXPECT_GT(answered, 0);
}

/// Of searches of so many steps each, none costs more for leave to have more stages a device.
void expect_no_worse_with_more_stages(const Problem& problem, Options options, int steps) {
  double before = kInfinite;
  for (const int stages : {1, 2, 3, 4, 8, 1000}) {
    options.segments_per_device = stages;
    int left = steps;  // Of all searches together: the function is copied.
    options.interrupted = [&left] { return left-- <= 0; };
    const auto answer = solve(problem, options);
    ASSERT_TRUE(answer) << answer.error().message();
    EXPECT_LE(answer->cost, before * (1 + 1e-9)) << "with " << stages << " a device";
    before = answer->cost;
  }
}

TEST(SolveTest, MoreStagesADeviceAreNeverWorse) {
  RandomOptions random;
  random.groups = 30;
  random.devices = {3};
  for (const auto seed : sampled(8)) {
    SCOPED_TRACE(seed);
    random.communication = seed % 2 == 0 ? 0.3 : 1;
    random.unlimited = seed % 3 == 0;
    Options options;
    options.goal = seed % 3 == 0 ? Goal::kLatency : Goal::kThroughput;
    const auto problem = random_problem(seed, random);
    ASSERT_NO_FATAL_FAILURE(
        expect_no_worse_with_more_stages(problem, options, kSanitized ? 200 : 2000));
  }
}

TEST(SolveTest, MoreStagesADeviceAreNeverWorseOnAPublicProblem) {
  const char* folder = std::getenv("PENSTOCK_TEST_WORKLOADS");
  if (!folder) GTEST_SKIP() << "PENSTOCK_TEST_WORKLOADS names no folder of workloads";
  const auto path =
      std::filesystem::path(folder) / "throughput" / "LayerGraphs" / "resnet50_inference.json";
  const auto problem = read_workload(path, {.one_stage = false});
  ASSERT_TRUE(problem) << problem.error().message();
  for (const int steps : {100, kSanitized ? 200 : 1000}) {
    expect_no_worse_with_more_stages(*problem, {}, steps);
  }
}

TEST(SolveTest, AgreesWithBruteForceOnMixedDevices) {
  RandomOptions random;
  random.groups = 6;
  random.devices = {2, 2};
  random.memory = random.overlap = random.launch = random.unsupported = random.pinned = true;
  agree(random, {}, 60);
}

TEST(SolveTest, AgreesWithBruteForceOnReplicasAndALatencyCap) {
  RandomOptions random;
  random.groups = 6;
  Options options;
  options.replicas = true;
  options.latency_cap = 12;
  agree(random, options, 60);
}

TEST(SolveTest, AgreesWithBruteForceOnLatency) {
  RandomOptions random;
  random.groups = 6;
  random.devices = {2};
  random.unlimited = random.memory = true;
  Options options;
  options.goal = Goal::kLatency;
  options.seconds = 2;
  agree(random, options, 30);
}

/// A thousand problems in which each switch is on in half of them, in ever other combinations.
TEST(SolveTest, AgreesWithBruteForceOnEveryOption) {
  for (const auto round : sampled(1000)) {
    const std::uint64_t bits = round * 0x9E3779B97F4A7C15ULL >> 40U;
    const auto on = [&](unsigned bit) { return (bits >> bit & 1U) != 0; };
    RandomOptions random;
    random.groups = 5 + static_cast<int>(round % 2);
    random.devices = on(0) ? std::vector<int>{2, 1} : std::vector<int>{3};
    random.modes_per_type = on(1) ? 2 : 1;
    random.communication = on(2) ? 1 : 0.1;
    random.whole_numbers = on(3);
    random.memory = on(4);
    random.overlap = on(5);
    random.free_transfers = on(6);
    random.links = on(7);
    random.launch = on(8);
    random.unsupported = on(9);
    random.colocated = on(10);
    random.pinned = on(11);
    random.backward = on(12);
    random.frames = on(13) && on(14);
    Options options;
    options.replicas = on(15);
    options.latency_cap = on(16) && on(17) ? 8 : kInfinite;
    const auto problem = random_problem(round, random);
    SCOPED_TRACE(round);
    if (!make_instance(problem, Partner::kLowest)) {  // Colocated groups that fit nowhere.
      ASSERT_FALSE(brute_force(problem, options));
      ASSERT_FALSE(solve(problem, options));
      continue;
    }
    const bool exact = !random.links && !random.frames;
    ASSERT_NO_FATAL_FAILURE(agree_on(problem, options, exact));
  }
}

}  // namespace
}  // namespace penstock::planner
