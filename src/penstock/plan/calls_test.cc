// Batches beside narrow edges, limits and options that change nothing, and stages of one lane.
#include "penstock/plan/calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/plan/stream_options.h"
#include "penstock/plan/test_plans.h"

namespace penstock::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(CallsTest, ABatchIsComparedWithTheNarrowestEdgeOfItsStage) {
  auto plan = chain();
  plan.stages[0].batch.frames = 4;
  EXPECT_THAT(batches_beyond_edges(plan), IsEmpty());
  plan.edges[0].capacity = 4;
  plan.edges[2].capacity = 1;  // Of the other stage.
  EXPECT_THAT(batches_beyond_edges(plan), IsEmpty());
  plan.edges[1].capacity = 3;
  EXPECT_THAT(batches_beyond_edges(plan),
              ElementsAre("stage 'stage0': takes up to 4 frames in a call (batch), and never gets "
                          "more than 3, as the edge of 't' holds no more (capacity 3); expected a "
                          "capacity of 4 or more, or a batch of 3"));
  plan.edges[0].policy = FullPolicy::kLatest;
  EXPECT_THAT(
      batches_beyond_edges(plan),
      ElementsAre(HasSubstr("never gets more than 1, as the edge of 'x' holds no more "
                            "(policy 'latest'); expected another policy, or a batch of 1")));
  plan.stages[0].each = {"x"};
  EXPECT_THAT(batches_beyond_edges(plan), IsEmpty());
}

TEST(CallsTest, ABatchIsComparedWithTheStreamsWhereItsStageClosesAState) {
  auto plan = chain();
  for (auto& stage : plan.stages) stage.batch.frames = 4;
  EXPECT_THAT(batches_beyond_streams(plan), IsEmpty());
  plan.stages[0].inputs.emplace_back("before");
  plan.states.push_back({plan.stages[1].outputs.front(), "before", {}});
  plan.streams.most = 2;
  EXPECT_THAT(
      batches_beyond_streams(plan),
      ElementsAre("stage 'stage1': takes up to 4 frames in a call (batch), and never gets more "
                  "than 2, as it writes the state 'before', which the next frame of a stream waits "
                  "for, and the plan allows 2 streams; expected 4 streams or more, or a batch of "
                  "2"));
  plan.streams.most = 4;
  EXPECT_THAT(batches_beyond_streams(plan), IsEmpty());
  plan.streams.most = 1;
  plan.stages[0].inputs.pop_back();
  plan.stages[1].inputs.emplace_back("before");
  plan.states.front().from = plan.stages[0].outputs.front();  // Written before it is read.
  EXPECT_THAT(batches_beyond_streams(plan), IsEmpty());
}

TEST(CallsTest, ABatchIsComparedWithTheModelsThatAllPartitionsHave) {
  auto plan = chain();
  auto& stage = plan.stages[0];
  stage.batch.frames = 8;
  EXPECT_THAT(batches_beyond_models(plan), IsEmpty());  // Without models it is refused.
  auto& batched = stage.partitions.front().batched;
  batched = {{2, "b2"}, {4, "b4"}, {8, "b8"}};
  EXPECT_THAT(batches_beyond_models(plan), IsEmpty());
  stage.partitions.push_back(stage.partitions.front());
  stage.partitions.back().batched = {{4, "c4"}};
  EXPECT_THAT(batches_beyond_models(plan),
              ElementsAre("stage 'stage0': takes up to 8 frames in a call (batch), and never gets "
                          "more than 4, as its models take no more; expected a model of 8 (split "
                          "the model again with --batch), or a batch of 4"));
}

TEST(CallsTest, ALimitOfCallsLeftBehindNeedsATimeForACall) {
  auto plan = chain();
  EXPECT_THAT(calls_never_left_behind(plan), IsEmpty());
  plan.stages[0].max_left_behind = 2;
  EXPECT_THAT(calls_never_left_behind(plan),
              ElementsAre("stage 'stage0': a call that hangs may be left behind "
                          "(max_left_behind), and never is, as no time tells that it hangs; "
                          "expected max_run too, or a max_left_behind of 0"));
  plan.stages[1].max_left_behind = 1;
  EXPECT_THAT(calls_never_left_behind(plan),
              ElementsAre(testing::StartsWith("stages 'stage0', 'stage1': a call that hangs")));
  for (auto& stage : plan.stages) stage.max_run = std::chrono::milliseconds(50);
  EXPECT_THAT(calls_never_left_behind(plan), IsEmpty());
}

TEST(CallsTest, StagesAndReplicasThatDrawRandomNumbersAreTold) {
  auto plan = chain();
  EXPECT_THAT(separate_draws(plan), IsEmpty());
  plan.stages[0].draws = {"noise"};
  EXPECT_THAT(separate_draws(plan), IsEmpty());
  plan.stages[1].draws = {"drop", "mask"};
  EXPECT_THAT(separate_draws(plan),
              ElementsAre("stages 'stage0' (node 'noise'), 'stage1' (node 'drop' and 1 more) draw "
                          "random numbers: each stage and each replica draws its own, which may be "
                          "alike; expected one stage of one replica that holds all these nodes "
                          "(split the model with --cut elsewhere, --replicas 1)"));
  plan.stages[1].draws.clear();
  plan.stages[0].devices.push_back(plan.stages[0].devices.front());
  EXPECT_THAT(separate_draws(plan),
              ElementsAre(testing::StartsWith(
                  "stage 'stage0' of 2 replicas (node 'noise') draws random numbers: ")));
}

TEST(CallsTest, ACapacityThatNotAllEdgesTakeIsTold) {
  auto plan = chain();
  StreamOptions stream{.input_policy = FullPolicy::kLatest, .capacity = 4};
  apply(stream, plan);
  EXPECT_THAT(options_without_effect(stream, plan),
              ElementsAre("capacity: the edge of 'x' keeps one frame, as its policy is 'latest'; "
                          "the other edges have 4 slots"));
  stream.capacity = 1;
  EXPECT_THAT(options_without_effect(stream, plan), IsEmpty());
  stream = {.input_policy = FullPolicy::kBlock, .capacity = 4};
  apply(stream, plan);
  EXPECT_THAT(options_without_effect(stream, plan), IsEmpty());
}

TEST(CallsTest, WhatKeepsCallsInTurnIsNamed) {
  auto plan = chain();
  EXPECT_THAT(why_one_lane(plan, plan.stages[0]), IsEmpty());
  plan.states.push_back({"t", "before", {}});
  EXPECT_THAT(why_one_lane(plan, plan.stages[0]),
              ElementsAre("it writes 't', a state that the next frame reads"));
  EXPECT_THAT(why_one_lane(plan, plan.stages[1]), IsEmpty());
  plan.stages[1].stateful = true;
  EXPECT_THAT(why_one_lane(plan, plan.stages[1]), ElementsAre(HasSubstr("stateful")));
}

}  // namespace
}  // namespace penstock::plan
