// The published optima of the public workloads (planner.md, section 2), each with its proof.
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "penstock/planner/throughput/contiguous.h"
#include "penstock/planner/workload/workload.h"

namespace penstock::planner {
namespace {

class Workloads : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("PENSTOCK_TEST_WORKLOADS");
    if (folder == nullptr || !std::filesystem::exists(folder)) {
      GTEST_SKIP() << "set PENSTOCK_TEST_WORKLOADS to the folder of the public workloads";
    }
    folder_ = std::filesystem::path(folder) / "throughput";
  }

  void expect_optimum(const std::string& name, double period, const WorkloadOptions& options = {}) {
    SCOPED_TRACE(name);
    const auto problem = read_workload(folder_ / (name + ".json"), options);
    ASSERT_TRUE(problem) << problem.error().message();
    const auto outcome = search_contiguous(*problem, {}, Budget());
    EXPECT_NEAR(outcome.cost, period, 1e-6 * period);
    EXPECT_GE(outcome.lower_bound, outcome.cost * (1 - 1e-9));
    ASSERT_TRUE(outcome.split);
    const auto evaluation = evaluate(*problem, *outcome.split);
    EXPECT_TRUE(evaluation.violations.empty()) << evaluation.violations.front();
    EXPECT_NEAR(evaluation.period, outcome.cost, 1e-9 * period);
  }

  std::filesystem::path folder_;
};

constexpr auto kBert24 = "LayerGraphs/bert24_inference";
constexpr auto kBert24Training = "LayerGraphs/bert24_training";
constexpr auto kGnmt = "LayerGraphs/gnmt_inference";
constexpr auto kResnet = "LayerGraphs/resnet50_inference";
constexpr auto kResnetTraining = "LayerGraphs/resnet50_training";
constexpr auto kBert12 = "OperatorGraphs/bert_l-12_inference";
constexpr auto kBert3 = "OperatorGraphs/bert_l-3_inference";
constexpr auto kBert3Training = "OperatorGraphs/bert_l-3_training";
constexpr auto kBert6Training = "OperatorGraphs/bert_l-6_training";
constexpr auto kResnetOps = "OperatorGraphs/resnet50_inference";
constexpr auto kResnetOpsTraining = "OperatorGraphs/resnet50_training";

TEST_F(Workloads, AsTheyStand) {
  expect_optimum(kBert24, 17.789906);
  expect_optimum(kBert24Training, 41.745812);
  expect_optimum(kGnmt, 32.910658);
  expect_optimum(kResnet, 33.774666);
  expect_optimum(kResnetTraining, 78.631812);
  expect_optimum(kBert12, 147.47798);
  expect_optimum(kBert3, 27.918568);
  expect_optimum(kBert3Training, 65.303149);
  expect_optimum(kBert6Training, 72.864966);
  expect_optimum(kResnetOps, 124.34885);
  expect_optimum(kResnetOpsTraining, 255.19442);
}

TEST_F(Workloads, WithoutCpu) {
  const WorkloadOptions options{.cpus = 0};
  expect_optimum(kBert24, 17.789906, options);
  expect_optimum(kBert24Training, 41.745812, options);
  expect_optimum(kGnmt, 32.910658, options);
  expect_optimum(kResnet, 34.222852, options);
  expect_optimum(kResnetTraining, 80.454887, options);
  expect_optimum(kBert12, 147.47798, options);
  expect_optimum(kBert3, 27.918568, options);
  expect_optimum(kBert3Training, 65.303149, options);
  expect_optimum(kBert6Training, 79.500857, options);
  expect_optimum(kResnetOps, 128.07351, options);
  expect_optimum(kResnetOpsTraining, 263.03529, options);
}

TEST_F(Workloads, WithOtherCountsOfDevices) {
  const struct {
    const char* name;
    double two, four, eight, sixteen;
  } rows[] = {
      {kBert24, 44.930953, 24.916906, 14.203906, 7.1959063},
      {kGnmt, 92.938555, 47.160658, 25.849555, 24.788104},
      {kResnet, 96.315629, 49.965406, 26.298516, 18.997889},
      {kBert12, 348.33494, 197.69222, 108.0442, 79.976987},
      {kBert3, 29.379828, 27.918568, 27.918568, 27.918568},
      {kResnetOps, 188.62245, 151.12566, 124.34885, 124.34885},
  };
  for (const auto& row : rows) {
    expect_optimum(row.name, row.two, {.devices = 2});
    expect_optimum(row.name, row.four, {.devices = 4});
    expect_optimum(row.name, row.eight, {.devices = 8});
    expect_optimum(row.name, row.sixteen, {.devices = 16});
  }
}

TEST_F(Workloads, WithTightMemory) {
  expect_optimum(kBert24, 28.422906, {.devices = 4, .memory = 5e8});
  expect_optimum(kBert24, 28.684906, {.devices = 4, .memory = 4.7e8});
  expect_optimum(kResnet, 29.291852, {.devices = 8, .memory = 3.2e9});
  expect_optimum(kResnet, 18.997889, {.devices = 16, .memory = 2e9});
  expect_optimum(kBert12, 159.4907, {.devices = 6, .memory = 1.7e9});
}

TEST_F(Workloads, WithDearerTransfers) {
  const struct {
    const char* name;
    double times_125, times_1000;
  } rows[] = {
      {kBert24, 18.274281, 20.591125},         {kBert24Training, 42.714562, 46.60825},
      {kGnmt, 34.690396, 44.782172},           {kResnet, 61.091672, 181.89956},
      {kResnetTraining, 141.43539, 479.03794},
  };
  for (const auto& row : rows) {
    expect_optimum(row.name, row.times_125, {.communication_factor = 125});
    expect_optimum(row.name, row.times_1000, {.communication_factor = 1000});
  }
}

}  // namespace
}  // namespace penstock::planner
