// Limits, hand-overs and notes of two small networks, by invented peaks and times.
#include "penstock/tune/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/graph/test_support.h"
#include "penstock/tune/describe.h"

namespace penstock::tune {
namespace {

using graph::NodeId;
using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kBytes = 4;  // Of an fp32 number.

/// Two products of 2 x 4 x 16 x 8 and 2 x 4 x 8 x 16 operations, and an element for element.
graph::Graph small_network() {
  return graph::import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[4,16] x, float[16,8] a, float[8,16] b) => (float[4,16] y) {
      s = MatMul(x, a)
      t = MatMul(s, b)
      y = Exp(t)
    })");
}

cost::Peaks peaks(double flops_per_second, double bytes_per_second) {
  return {{{"plain", flops_per_second}},
          {{"L1", 1e6, 10 * bytes_per_second}, {"memory", 0, bytes_per_second}}};
}

partition::ChosenStage stage_of(const std::vector<partition::ChosenPart>& parts, int replicas) {
  partition::ChosenStage stage;
  for (const auto& part : parts) {
    stage.nodes.insert(stage.nodes.end(), part.nodes.begin(), part.nodes.end());
  }
  stage.devices.resize(static_cast<std::size_t>(replicas));
  stage.parts = parts;
  return stage;
}

/// As describe() makes it of so many milliseconds for each node.
Report report_of(const graph::Graph& graph, const std::vector<partition::ChosenStage>& stages) {
  Report report;
  report.goal = "throughput";
  report.period_seconds = 2e-3;
  report.nodes = nodes_of(graph, {1e-3, 2e-3, 1e-3});
  for (std::size_t i = 0; i < stages.size(); ++i) {
    for (const auto& part : stages[i].parts) {
      report.parts.push_back(part_report(part, static_cast<int>(i), report.nodes));
    }
  }
  return report;
}

TEST(LimitsTest, OfAPartAreThoseOfItsStagesDevice) {
  const auto graph = small_network();
  const std::vector stages{stage_of({{"one", {}, {NodeId{0}}}}, 1),
                           stage_of({{"two", {}, {NodeId{1}, NodeId{2}}}}, 2)};
  auto report = report_of(graph, stages);
  describe_limits(graph, stages, {}, {{peaks(1e6, 1e6), peaks(1e9, 1e3)}, peaks(4e6, 1e6)}, report);
  EXPECT_THAT(report.parts[0].seconds, DoubleEq(1e-3));
  EXPECT_THAT(report.parts[0].limit_seconds, DoubleEq(2 * 4 * 16 * 8 / 1e6));
  EXPECT_EQ(report.parts[0].bound, "computing");
  EXPECT_THAT(report.parts[1].seconds, DoubleEq(3e-3));
  EXPECT_THAT(report.parts[1].limit_seconds, DoubleEq((4 * 8 + 8 * 16 + 4 * 16) * kBytes / 1e4));
  EXPECT_EQ(report.parts[1].bound, "moving");
  EXPECT_EQ(report.limit.workers, 3);
}

TEST(LimitsTest, FramesOfOneCallReadTheWeightsTogether) {
  auto graph = graph::import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[4,2] x) => (float[4,8] y) <float[2,8] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}> {
      y = MatMul(x, w)
    })");
  const std::vector stages{stage_of({{"one", {}, {NodeId{0}}}}, 1)};
  const auto limit_of_call = [&](const partition::Batches& batches) {
    Report report;
    report.goal = "throughput";
    report.nodes = nodes_of(graph, {1e-3});
    report.parts.push_back(part_report(stages[0].parts[0], 0, report.nodes));
    describe_limits(graph, stages, batches, {{peaks(1e9, 1e3)}, peaks(1e9, 1e3)}, report);
    EXPECT_EQ(report.parts[0].bound, "moving");
    return std::pair(report.parts[0].limit_seconds, report.limit.bytes);
  };
  const double border = (4 * 2 + 4 * 8) * kBytes, weights = 2 * 8 * kBytes;
  EXPECT_THAT(limit_of_call({}).first, DoubleEq((border + weights) / 1e4));
  EXPECT_THAT(limit_of_call({{"stage0", {.frames = 4}}}).first,
              DoubleEq((border + weights / 4) / 1e4));
  EXPECT_THAT(limit_of_call({{"stage0", {.frames = 4}}}).second, DoubleEq(border + weights / 4));
}

TEST(LimitsTest, OfTheWholeAreThoseOfAllDevicesTogether) {
  const auto graph = small_network();
  const std::vector stages{stage_of({{"one", {}, {NodeId{0}}}}, 1),
                           stage_of({{"two", {}, {NodeId{1}, NodeId{2}}}}, 1)};
  auto report = report_of(graph, stages);
  describe_limits(graph, stages, {}, {{peaks(1e6, 1e6), peaks(1e6, 1e6)}, peaks(4e6, 1e6)}, report);
  const double flops = 2 * 2 * 4 * 16 * 8 + 4 * 16;
  EXPECT_THAT(report.limit.flops, DoubleEq(flops));
  EXPECT_THAT(report.limit.bytes, DoubleEq((4 * 16 + 16 * 8 + 8 * 16 + 4 * 16) * kBytes));
  EXPECT_THAT(report.limit.seconds, DoubleEq(flops / 4e6));
  EXPECT_THAT(report.fraction_of_limit(), DoubleEq(flops / 4e6 / 2e-3));
  EXPECT_EQ(report.limit.level, "L1");
  report.goal = "latency";
  EXPECT_EQ(report.fraction_of_limit(), 0);  // No latency was measured.
  EXPECT_THAT(report.notes, IsEmpty());
}

TEST(LimitsTest, HandOversAreWhatOnePartMakesAndAnotherReads) {
  const auto graph = small_network();
  const std::vector stages{stage_of({{"one", {}, {NodeId{0}}}, {"two", {}, {NodeId{1}}}}, 1),
                           stage_of({{"one", {}, {NodeId{2}}}}, 1)};
  auto report = report_of(graph, stages);
  describe_limits(graph, stages, {}, {{peaks(1e6, 1e6), peaks(1e6, 1e6)}, peaks(4e6, 1e6)}, report);
  ASSERT_EQ(report.limit.handovers.size(), 2U);
  EXPECT_EQ(report.limit.handovers[0].from, 0);
  EXPECT_EQ(report.limit.handovers[0].to, 1);
  EXPECT_THAT(report.limit.handovers[0].bytes, DoubleEq(4 * 8 * kBytes));
  EXPECT_EQ(report.limit.handovers[1].to, 2);
  EXPECT_THAT(report.limit.handovers[1].bytes, DoubleEq(4 * 16 * kBytes));
}

TEST(LimitsTest, PartsInALowerPrecisionAreLeftOutAndToldOf) {
  const auto graph = small_network();
  const std::vector stages{stage_of(
      {{"one", {{"precision", "bf16"}}, {NodeId{0}}}, {"one", {}, {NodeId{1}, NodeId{2}}}}, 1)};
  auto report = report_of(graph, stages);
  describe_limits(graph, stages, {}, {{peaks(1e6, 1e6)}, peaks(1e6, 1e6)}, report);
  EXPECT_EQ(report.parts[0].limit_seconds, 0);
  EXPECT_EQ(report.parts[0].bound, "");
  EXPECT_GT(report.parts[1].limit_seconds, 0);
  EXPECT_THAT(report.limit.flops, DoubleEq(2 * 4 * 16 * 8 + 4 * 16));
  EXPECT_THAT(report.notes, ElementsAre(HasSubstr("which parts of a lower precision do")));
}

TEST(LimitsTest, OtherTypesAreLeftOutAndToldOf) {
  const auto graph = graph::import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (uint8[4,16] x, uint8[16,8] a) => (float[4,8] y) {
      s = MatMulInteger(x, a)
      t = Cast <to = 1> (s)
      y = Exp(t)
    })");
  const std::vector stages{stage_of({{"one", {}, {NodeId{0}, NodeId{1}, NodeId{2}}}}, 1)};
  auto report = report_of(graph, stages);
  describe_limits(graph, stages, {}, {{peaks(1e6, 1e6)}, peaks(1e6, 1e6)}, report);
  EXPECT_THAT(report.limit.flops, DoubleEq(4 * 8));
  EXPECT_THAT(report.notes, ElementsAre(HasSubstr("on integers or on numbers of other widths")));
}

}  // namespace
}  // namespace penstock::tune
