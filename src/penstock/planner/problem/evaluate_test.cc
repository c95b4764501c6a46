// Loads, latency and memory of splits computed by hand, and a message for each broken rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/planner/problem/split.h"

namespace penstock::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Group group(std::string name, std::vector<double> time, double memory) {
  Group made;
  made.name = std::move(name);
  made.time = std::move(time);
  made.memory = memory;
  return made;
}

Value value(int producer, std::vector<int> consumers, double transfer, double bytes = 0) {
  return {"v" + std::to_string(producer), producer, std::move(consumers), bytes, transfer};
}

/// Groups 0 -> 1 -> 2 -> 3 of times 1, 2, 3, 4 and 10, 20, 30, 40 bytes, values of cost 0.5, 1, 2;
/// two devices a0 and a1 of 100 bytes, each stage costs 0.25 beside.
Problem chain() {
  Problem problem;
  problem.types.push_back({"a", {"a0", "a1"}, false, 100, Overlap::kSerial, true});
  problem.modes.push_back({"a/fp32", 0, 0.25});
  for (int g = 0; g < 4; ++g) {
    problem.groups.push_back(group("g" + std::to_string(g), {1.0 + g}, 10.0 * (1 + g)));
  }
  problem.values = {value(0, {1}, 0.5), value(1, {2}, 1), value(2, {3}, 2)};
  problem.order = {{0, 1}, {1, 2}, {2, 3}};
  return problem;
}

Split halves() {
  return {{{{0, 1}, 0, {0}}, {{2, 3}, 0, {1}}}};
}

/// The chain with an unlimited type "cpu", ten times slower, that pays no transfers.
Problem chain_with_unlimited() {
  auto problem = chain();
  problem.types.push_back({"cpu", {}, true, kInfinite, Overlap::kSerial, false});
  problem.modes.push_back({"cpu/fp32", 1, 0});
  for (auto& item : problem.groups) item.time.push_back(item.time[0] * 10);
  return problem;
}

void expect_only_violation(const Problem& problem, const Split& split, const std::string& text) {
  EXPECT_THAT(evaluate(problem, split).violations, ElementsAre(HasSubstr(text)));
}

TEST(EvaluateTest, AddsComputeAndTransfersOfTwoStages) {
  const auto found = evaluate(chain(), halves());
  EXPECT_THAT(found.violations, IsEmpty());
  EXPECT_DOUBLE_EQ(found.devices[0].compute, 3.25);
  EXPECT_DOUBLE_EQ(found.devices[0].in, 0);
  EXPECT_DOUBLE_EQ(found.devices[0].out, 1);
  EXPECT_DOUBLE_EQ(found.devices[0].load, 4.25);
  EXPECT_DOUBLE_EQ(found.devices[0].memory, 30);
  EXPECT_DOUBLE_EQ(found.devices[1].compute, 7.25);
  EXPECT_DOUBLE_EQ(found.devices[1].in, 1);
  EXPECT_DOUBLE_EQ(found.devices[1].load, 8.25);
  EXPECT_DOUBLE_EQ(found.devices[1].memory, 70);
  EXPECT_DOUBLE_EQ(found.period, 8.25);
  EXPECT_DOUBLE_EQ(found.latency, 12.5);
}

TEST(EvaluateTest, CombinesByOverlap) {
  auto problem = chain();
  problem.values[0].transfer_time = 4;
  problem.values[1].transfer_time = 3;
  const Split split{{{{0}, 0, {0}}, {{1}, 0, {1}}, {{2, 3}, 0, {0}}}};
  // a0: P = 8.5, I = 3, O = 4; a1: P = 2.25, I = 4, O = 3.
  EXPECT_DOUBLE_EQ(evaluate(problem, split).devices[1].load, 9.25);
  problem.types[0].overlap = Overlap::kHalfDuplex;
  EXPECT_DOUBLE_EQ(evaluate(problem, split).devices[1].load, 7);
  EXPECT_DOUBLE_EQ(evaluate(problem, split).devices[0].load, 8.5);
  problem.types[0].overlap = Overlap::kFullDuplex;
  EXPECT_DOUBLE_EQ(evaluate(problem, split).devices[1].load, 4);
}

TEST(EvaluateTest, ReceivesAValueOnceForAllStagesOfADevice) {
  auto problem = chain();
  problem.values[0] = value(0, {1, 2, 3}, 0.5);
  const Split split{{{{0}, 0, {0}}, {{1}, 0, {1}}, {{2}, 0, {0}}, {{3}, 0, {1}}}};
  const auto found = evaluate(problem, split);
  EXPECT_THAT(found.violations, IsEmpty());
  EXPECT_DOUBLE_EQ(found.devices[0].compute, 4.5);
  EXPECT_DOUBLE_EQ(found.devices[0].in, 1);         // Value 1.
  EXPECT_DOUBLE_EQ(found.devices[0].out, 0.5 + 2);  // Values 0 and 2.
  EXPECT_DOUBLE_EQ(found.devices[1].in, 0.5 + 2);
  EXPECT_DOUBLE_EQ(found.devices[1].out, 1);
  // In a row: 1.25 + 0.5, 0.5 + 2.25 + 1, 1 + 3.25 + 2, 2 + 4.25 (value 0 is there already).
  EXPECT_DOUBLE_EQ(found.latency, 1.75 + 3.75 + 6.25 + 6.25);
}

TEST(EvaluateTest, ExchangesFreeBetweenStagesOfOneDevice) {
  auto problem = chain();
  problem.values = {value(0, {2}, 5)};
  problem.order = {{0, 2}, {1, 3}};
  const Split split{{{{0}, 0, {0}}, {{1}, 0, {1}}, {{2}, 0, {0}}, {{3}, 0, {1}}}};
  const auto found = evaluate(problem, split);
  EXPECT_DOUBLE_EQ(found.period, 6.5);   // a1: 2 + 4 + 2 * 0.25.
  EXPECT_DOUBLE_EQ(found.latency, 6.5);  // The devices do not wait for each other.
}

TEST(EvaluateTest, DividesALoadAmongReplicasButNotLatencyOrMemory) {
  auto problem = chain();
  problem.types[0].devices = {"a0", "a1", "a2"};
  const Split split{{{{0, 1}, 0, {2}}, {{2, 3}, 0, {0, 1}}}};
  const auto found = evaluate(problem, split);
  EXPECT_THAT(found.violations, IsEmpty());
  EXPECT_DOUBLE_EQ(found.devices[0].load, 8.25 / 2);
  EXPECT_DOUBLE_EQ(found.devices[1].load, 8.25 / 2);
  EXPECT_DOUBLE_EQ(found.devices[1].memory, 70);
  EXPECT_DOUBLE_EQ(found.period, 4.25);
  EXPECT_DOUBLE_EQ(found.latency, 12.5);
}

TEST(EvaluateTest, TakesThePairsLinkAndTheDearestReader) {
  Problem problem = chain();
  problem.types = {{"a", {"a0"}, false, kInfinite, Overlap::kSerial, true},
                   {"b", {"b0"}, false, kInfinite, Overlap::kSerial, true},
                   {"c", {"c0"}, false, kInfinite, Overlap::kSerial, false}};
  problem.modes = {{"a", 0, 0}, {"b", 1, 0}, {"c", 2, 0}};
  for (auto& item : problem.groups) item.time = {1, 1, 1};
  problem.values = {value(0, {1, 2, 3}, 0.5, 100)};
  problem.links.assign(3, std::vector<Link>(3));
  problem.links[0][1] = {1, 50};
  problem.links[0][2] = {2, 10};
  const Split split{{{{0}, 0, {0}}, {{1, 2}, 1, {1}}, {{3}, 2, {2}}}};
  const auto found = evaluate(problem, split);
  EXPECT_DOUBLE_EQ(found.devices[0].out, 0.5 + 2 + 10);
  EXPECT_DOUBLE_EQ(found.devices[1].in, 0.5 + 1 + 2);
  EXPECT_DOUBLE_EQ(found.devices[2].in, 0);  // Pays no transfers.
}

TEST(EvaluateTest, RunsGroupsOfAnUnlimitedTypeAtOnce) {
  auto problem = chain_with_unlimited();
  problem.order = {{0, 2}, {1, 2}, {2, 3}};
  problem.values = {value(0, {2}, 0.5), value(1, {2}, 1), value(2, {3}, 2)};
  const Split split{{{{0}, 1, {}}, {{1}, 1, {}}, {{2, 3}, 0, {0}}}};
  const auto found = evaluate(problem, split);
  EXPECT_THAT(found.violations, IsEmpty());
  EXPECT_DOUBLE_EQ(found.latency, 20 + 0.5 + 1 + 7.25);
  EXPECT_DOUBLE_EQ(found.period, 8.75);
}

TEST(EvaluateTest, CountsFramesInFlightAtBothEnds) {
  auto problem = chain();
  problem.types[0].devices = {"a0", "a1", "a2"};
  problem.frames_in_flight = true;
  problem.values = {value(0, {1, 2, 3}, 0, 3), value(2, {3}, 0, 7)};
  const Split split{{{{0}, 0, {0}}, {{1}, 0, {1}}, {{2, 3}, 0, {2}}}};
  const auto found = evaluate(problem, split);
  EXPECT_DOUBLE_EQ(found.devices[0].memory, 10 + 3 * 3);
  EXPECT_DOUBLE_EQ(found.devices[1].memory, 20 + 3 * 3);
  EXPECT_DOUBLE_EQ(found.devices[2].memory, 70 + 3 * 3);  // The value of 7 bytes stays inside.
  problem.types[0].memory = 78;
  expect_only_violation(problem, split, "device 'a2': holds 79 bytes, more than its 78");
}

TEST(EvaluateTest, LetsTheValuesOfATrainingGraphGoBack) {
  auto problem = chain();
  problem.values.push_back(value(3, {1}, 1.5));
  const auto found = evaluate(problem, halves());
  EXPECT_THAT(found.violations, IsEmpty());
  EXPECT_DOUBLE_EQ(found.devices[0].in, 1.5);
  EXPECT_DOUBLE_EQ(found.devices[1].out, 1.5);
}

TEST(EvaluateTest, NamesAGroupInNoStageAndOneInTwo) {
  const auto found = evaluate(chain(), {{{{0, 1}, 0, {0}}, {{1, 2}, 0, {1}}}});
  EXPECT_THAT(found.violations, ElementsAre("group 'g1': is in stage 0 and in stage 1",
                                            "group 'g3': is in no stage"));
  EXPECT_EQ(found.period, kInfinite);
}

TEST(EvaluateTest, NamesWhatDoesNotExist) {
  const auto found = evaluate(chain(), {{{{0, 1, 2, 3, 9}, 2, {5}}, {{}, 0, {1}}}});
  EXPECT_THAT(found.violations,
              ElementsAre("stage 0: there is no mode 2", "stage 0: there is no device 5",
                          "stage 0: there is no group 9", "stage 1: has no group"));
}

TEST(EvaluateTest, RefusesStagesOutOfOrder) {
  expect_only_violation(chain(), {{{{2, 3}, 0, {0}}, {{0, 1}, 0, {1}}}},
                        "stage 0: group 'g2' needs group 'g1' of the later stage 1");
}

TEST(EvaluateTest, RefusesACyclicQuotient) {
  auto problem = chain();
  problem.order = {{0, 1}, {2, 3}};  // a1 -> a2 and b1 -> b2 as {a1, b2}, {b1, a2}.
  problem.values = {};
  const Split forward{{{{0, 3}, 0, {0}}, {{1, 2}, 0, {1}}}};
  const Split backward{{{{1, 2}, 0, {1}}, {{0, 3}, 0, {0}}}};
  EXPECT_EQ(evaluate(problem, forward).violations.size(), 1);
  EXPECT_EQ(evaluate(problem, backward).violations.size(), 1);
}

TEST(EvaluateTest, RefusesAnUnsupportedGroup) {
  auto problem = chain();
  problem.groups[2].time[0] = kInfinite;
  expect_only_violation(problem, halves(), "group 'g2': mode 'a/fp32' does not support it");
  EXPECT_EQ(evaluate(problem, halves()).period, kInfinite);
}

TEST(EvaluateTest, RefusesMemoryOverACap) {
  auto problem = chain();
  problem.types[0].memory = 69;
  expect_only_violation(problem, halves(), "device 'a1': holds 70 bytes, more than its 69");
}

TEST(EvaluateTest, RefusesWrongMissingAndRepeatedDevices) {
  auto problem = chain();
  problem.types[0].memory = kInfinite;
  problem.types.push_back({"b", {"b0"}, false, kInfinite, Overlap::kSerial, true});
  expect_only_violation(problem, {{{{0, 1}, 0, {0}}, {{2, 3}, 0, {2}}}},
                        "stage 1: device 'b0' is not of type 'a'");
  expect_only_violation(problem, {{{{0, 1}, 0, {0}}, {{2, 3}, 0, {}}}}, "stage 1: has no device");
  expect_only_violation(problem, {{{{0, 1, 2, 3}, 0, {0, 0}}}}, "stage 0: names device 'a0' twice");
}

TEST(EvaluateTest, RefusesReplicasThatShareADevice) {
  auto problem = chain();
  problem.types[0].memory = kInfinite;
  expect_only_violation(problem, {{{{0, 1}, 0, {0, 1}}, {{2, 3}, 0, {1}}}},
                        "stage 1: shares device 'a1' with stage 0");
}

TEST(EvaluateTest, RefusesColocatedGroupsApart) {
  auto problem = chain();
  problem.colocated = {{0, 2}};
  expect_only_violation(problem, halves(), "group 'g2': is on another device than group 'g0'");
  const Split back{{{{0}, 0, {0}}, {{1}, 0, {1}}, {{2, 3}, 0, {0}}}};
  EXPECT_THAT(evaluate(problem, back).violations, IsEmpty());
}

TEST(EvaluateTest, RefusesTwoGroupsInAStageOfAnUnlimitedType) {
  expect_only_violation(chain_with_unlimited(), {{{{0, 1}, 1, {}}, {{2, 3}, 0, {0}}}},
                        "stage 0: more than one group on unlimited type 'cpu'");
}

}  // namespace
}  // namespace penstock::planner
