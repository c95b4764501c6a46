// Which variants there are of two stages, one stage, a state, functions and batches.
#include "penstock/follow/variants.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_backend.h"

namespace penstock::follow {
namespace {

using ::testing::ElementsAre;
using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

const auto kPlusOne = unary([](float x) { return x + 1; });

/// in -> a -> mid -> b -> out, mid is an output too; on cpu:0 and cpu:1, whether they exist or not.
plan::Plan two_stages() {
  FakeNetwork network;
  network.input("in")
      .stage("a", {"in"}, {"mid"}, kPlusOne)
      .stage("b", {"mid"}, {"out"}, kPlusOne)
      .output("out");
  auto plan = network.finish();
  for (std::size_t i = 0; i < 2; ++i) {
    plan.stages[i].devices = {device::Device{.host = {}, .cpus = {static_cast<int>(i)}}};
    plan.stages[i].predicted_seconds = 0.001;
  }
  return plan;
}

std::vector<std::string> names_of(const std::vector<Variant>& variants) {
  std::vector<std::string> names;
  for (const auto& variant : variants) names.push_back(variant.name);
  return names;
}

TEST(VariantsTest, OfTwoStagesAreWholeOnesAndTheOtherWayRound) {
  const auto plan = two_stages();
  const auto variants = variants_of(plan);
  EXPECT_THAT(names_of(variants),
              ElementsAre("as it is", "whole on cpu:0", "whole on cpu:1",
                          "whole on each of cpu:0, cpu:1", "'a' and 'b' changed"));
  EXPECT_EQ(variants[0].plan, plan);
  const auto& each = variants[3];
  EXPECT_THAT(plan::violations(each.plan), ::testing::IsEmpty());
  ASSERT_EQ(each.plan.stages.size(), 1);
  EXPECT_EQ(each.plan.stages[0].partitions.size(), 2);
  EXPECT_EQ(each.plan.stages[0].devices.size(), 2);
  EXPECT_THAT(each.plan.stages[0].inputs, ElementsAre("in"));
  EXPECT_THAT(each.plan.stages[0].outputs, ElementsAre("out"));
  EXPECT_DOUBLE_EQ(each.plan.stages[0].predicted_seconds, 0.002);
  EXPECT_THAT(each.from, ElementsAre(ElementsAre(0, 1)));
  EXPECT_EQ(variants[4].plan.stages[0].devices, plan.stages[1].devices);
}

TEST(VariantsTest, OfOneCallOnAllCpusAreCallsOnEach) {
  FakeNetwork network;
  network.input("in").stage("a", {"in"}, {"out"}, kPlusOne).output("out");
  auto plan = network.finish();
  plan.stages[0].devices = {device::Device{.host = {}, .cpus = {0, 1}}};
  EXPECT_THAT(
      names_of(variants_of(plan)),
      ElementsAre("as it is", "whole on cpu:0", "whole on cpu:1", "whole on each of cpu:0, cpu:1"));
}

TEST(VariantsTest, KeepWhatHappensWhereTheInputIsFull) {
  auto plan = two_stages();
  plan.edges.front().policy = plan::FullPolicy::kDropOldest;
  for (const auto& variant : variants_of(plan)) {
    EXPECT_EQ(variant.plan.edges.front().policy, plan::FullPolicy::kDropOldest) << variant.name;
    EXPECT_EQ(variant.plan.edges.back().policy, plan::FullPolicy::kBlock) << variant.name;
  }
}

TEST(VariantsTest, OfAStateHaveOneInstance) {
  FakeNetwork network;
  network.input("in")
      .state_input("sum")
      .stage("a", {"in", "sum"}, {"mid", "new_sum"}, [](Inputs, Outputs) -> Status { return {}; },
             1, {scalar(), scalar()})
      .stage("b", {"mid"}, {"out"}, kPlusOne)
      .output("out")
      .state("new_sum", "sum");
  auto plan = network.finish();
  plan.stages[0].devices = {device::Device{.host = {}, .cpus = {0}}};
  plan.stages[1].devices = {device::Device{.host = {}, .cpus = {1}}};
  for (const auto& variant : variants_of(plan)) {
    EXPECT_THAT(plan::violations(variant.plan), ::testing::IsEmpty()) << variant.name;
    for (const auto& stage : variant.plan.stages) EXPECT_EQ(stage.devices.size(), 1);
  }
  EXPECT_GE(variants_of(plan).size(), 3);
}

TEST(VariantsTest, OfFunctionsAreNone) {
  auto plan = two_stages();
  plan.stages[1].partitions[0].backend = std::string(plan::kFunctionBackend);
  EXPECT_THAT(names_of(variants_of(plan)), ElementsAre("as it is"));
}

TEST(VariantsTest, OfCallsOfSeveralFramesAreNone) {
  auto plan = two_stages();
  plan.stages[0].batch.frames = 4;
  EXPECT_THAT(names_of(variants_of(plan)), ElementsAre("as it is"));
}

}  // namespace
}  // namespace penstock::follow
