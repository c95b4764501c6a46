// What stayed on a peer and was lost with it is made again, from the first stage whose inputs live.
#include <chrono>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/pipeline/edge.h"
#include "penstock/pipeline/pipeline.h"
#include "tests/support/fake_remote.h"
#include "tests/support/numbered_frames.h"

namespace penstock::pipeline::remakes_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

// An instance handed its frame on, another one ended it, and a later frame has its place.
TEST(Remakes, OfAFrameWhosePlaceAReaderOfAnEarlierOneLeavesLate) {
  Edge edge({.from = 0, .to = {1}, .tensors = {}}, {}, 1, "a -> b");
  Returns maker, reader;
  maker.configure(1, 1, 1);
  edge.remakes.configure(edge, maker, 1, 1, 8);
  ASSERT_TRUE(edge.remakes.enter(reader, {.frame = 0}));
  ASSERT_TRUE(edge.remakes.enter(reader, {.frame = 0, .begun = true}));
  edge.remakes.leave(0);
  ASSERT_TRUE(edge.remakes.enter(reader, {.frame = 1}));
  ASSERT_TRUE(edge.remakes.lose(reader, {.frame = 1, .begun = true}));
  EXPECT_TRUE(maker.empty());  // It may read still, for all that is known.
  edge.remakes.leave(0);
  const auto asked = maker.take();
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->frame, 1U);
  EXPECT_EQ(asked->again, &edge);
}

Function times(float factor) {
  return unary([factor](float x) { return factor * x; });
}

// Peers whose tensors stay with them: "first:1" and so on; the n-th stage has the n-th.
struct Remade : NumberedFrames {
  Remade() {
    remote->direct = true;
    network.registry.add(remote);
    network.input("in");
  }

  void far(const std::string& name, std::vector<std::string> reads, std::vector<std::string> writes,
           Function run, const std::string& standby = "") {
    const char* const peers[] = {"first:1/cpu:0", "second:1/cpu:0", "third:1/cpu:0"};
    network.stage(name, std::move(reads), std::move(writes), std::move(run));
    auto& stage = network.plan.stages.back();
    stage.devices = {*device::parse_device(peers[network.plan.stages.size() - 1])};
    if (!standby.empty()) stage.standby = {*device::parse_device(standby)};
  }
  /// in -> a (2 x) -> b (3 x) -> out
  void two_stages(const std::string& standby) {
    far("a", {"in"}, {"y"}, times(2), standby);
    far("b", {"y"}, {"out"}, times(3));
    network.output("out");
  }
  void start(int capacity = 8) {
    auto started = network.start({.capacity = capacity});
    ASSERT_TRUE(started) << started.error().message();
    pipeline = *std::move(started);
  }
  /// Frames that first:1 made are in progress at `reader` while something happens.
  void while_read(int frames, const std::function<void()>& happens,
                  const char* reader = "second:1") {
    remote->hold(reader, true);
    push(frames);
    remote->wait_for_calls(reader, frames);
    happens();
    remote->hold(reader, false);
  }
  void pop_good(int frames, float factor) {
    NumberedFrames::pop_good(frames, [factor](float x) { return factor * x; });
  }

  std::shared_ptr<FakeRemote> remote = std::make_shared<FakeRemote>(network);
};

TEST_F(Remade, OnTheStandbyOfTheStageThatMadeIt) {
  two_stages("fourth:1/cpu:0");
  start();
  while_read(4, [&] { remote->lose("first:1"); });
  pop_good(4, 6);
  EXPECT_THAT(remote->computed("fourth:1"), SizeIs(4));
}

TEST_F(Remade, OnTheSameDeviceWhereItIsThereAgain) {
  two_stages("");
  start();
  while_read(4, [&] { remote->forget("first:1"); });
  pop_good(4, 6);
  EXPECT_THAT(remote->computed("first:1"), SizeIs(8));
}

TEST_F(Remade, OnACpuOfThisMachine) {
  two_stages("cpu:0");
  start();
  while_read(4, [&] { remote->lose("first:1"); });
  pop_good(4, 6);
}

TEST_F(Remade, NotWhereNobodyCanFramesAreUnavailable) {
  two_stages("");
  start();
  while_read(2, [&] { remote->lose("first:1"); });
  for (int i = 0; i < 2; ++i) EXPECT_EQ(pop().error().code, Code::kUnavailable);
}

// Every try finds what was made gone: the reader tells it in the end.
TEST_F(Remade, AFewTimesAndNoMore) {
  far("a", {"in"}, {"y"}, unary([this](float x) {
        remote->forget("first:1");  // Before the call has ended.
        return x;
      }));
  far("b", {"y"}, {"out"}, times(3));
  network.output("out");
  start();
  push(1);
  EXPECT_THAT(pop().error().message(), HasSubstr("an input was lost"));
}

// Of three stages in a row the first two lose what they made: it goes back to the caller's frame.
TEST_F(Remade, FromTheCallersFrameAtTheWorst) {
  far("a", {"in"}, {"y"}, times(2), "fourth:1/cpu:0");
  far("b", {"y"}, {"z"}, times(3), "fifth:1/cpu:0");
  far("c", {"z"}, {"out"}, times(5));
  network.output("out");
  start();
  while_read(
      4,
      [&] {
        remote->lose("first:1");
        remote->lose("second:1");
      },
      "third:1");
  pop_good(4, 30);
  EXPECT_THAT(remote->computed("fourth:1"), SizeIs(4));
  EXPECT_THAT(remote->computed("fifth:1"), SizeIs(4));
}

TEST_F(Remade, FromTheFirstStageWhoseInputsLive) {
  far("a", {"in"}, {"y"}, times(2), "fourth:1/cpu:0");
  far("b", {"y"}, {"z"}, times(3), "fifth:1/cpu:0");
  far("c", {"z"}, {"out"}, times(5));
  network.output("out");
  start();
  while_read(4, [&] { remote->lose("second:1"); }, "third:1");
  pop_good(4, 30);
  EXPECT_THAT(remote->computed("fourth:1"), IsEmpty());
  EXPECT_THAT(remote->computed("fifth:1"), SizeIs(4));
}

// Edges of one slot: nothing that must be kept is written over meanwhile, and nothing stands still.
TEST_F(Remade, WhereEdgesHoldOneFrame) {
  far("a", {"in"}, {"y"}, times(2), "fourth:1/cpu:0");
  far("b", {"y"}, {"z"}, times(3), "fifth:1/cpu:0");
  far("c", {"z"}, {"out"}, times(5));
  network.output("out");
  start(1);
  for (int i = 0; i < 20; ++i) {
    remote->hold("third:1", true);
    push(1);
    remote->wait_for_calls("third:1", 1);
    i % 2 == 0 ? remote->forget("first:1") : remote->forget("second:1");
    if (i % 3 == 0) remote->forget("first:1");
    remote->hold("third:1", false);
    pop_good(1, 30);
  }
}

// Two read it, of which one has; what they made of it before stays.
TEST_F(Remade, ForOneReaderWhileAnotherReads) {
  far("a", {"in"}, {"y"}, times(2), "fourth:1/cpu:0");
  far("b", {"y"}, {"z"}, times(3));
  far("c", {"y"}, {"w"}, times(5));
  network
      .stage("sum", {"z", "w"}, {"out"},
             [](Inputs in, Outputs to) -> Status {
               to[0]->as<float>()[0] = value_of(*in[0]) + value_of(*in[1]);
               return {};
             })
      .output("out");
  start();
  for (const auto* slow : {"second:1", "third:1"}) {
    const std::string other = slow == std::string("second:1") ? "third:1" : "second:1";
    remote->hold(slow, true);
    push(3);
    remote->wait_for_calls(slow, 3);
    remote->hold(other, true);
    push(1);
    remote->wait_for_calls(other, 1);
    remote->forget("first:1");
    remote->hold(other, false);
    remote->hold(slow, false);
    pop_good(4, 16);
  }
}

// One of a stage's outputs was lost, and another one was read, and its place given to other frames.
TEST_F(Remade, WithoutWhatElseItsStageWrites) {
  far(
      "a", {"in"}, {"y", "w"},
      [](Inputs in, Outputs to) -> Status {
        to[0]->as<float>()[0] = 2 * value_of(*in[0]);
        to[1]->as<float>()[0] = 100;
        return {};
      },
      "fourth:1/cpu:0");
  far("b", {"y"}, {"out"}, times(3));
  network.output("out").output("w");
  start();
  while_read(4, [&] { remote->lose("first:1"); });
  for (int i = 0; i < 4; ++i) {
    const Output output = pop();
    ASSERT_TRUE(output.ok()) << output.error().message();
    EXPECT_EQ(value_of(output[0]), 6 * static_cast<float>(i));
    EXPECT_EQ(value_of(output[1]), 100);
  }
}

// The state is the sum of all frames before: it is written in their order, each once.
TEST_F(Remade, BeforeAStateThatIsWrittenInOrder) {
  far("a", {"in"}, {"y"}, times(2), "fourth:1/cpu:0");
  far("b", {"y"}, {"z"}, times(0));
  network.state_input("before")
      .stage("sum", {"y", "z", "before"}, {"after"},
             [](Inputs in, Outputs to) -> Status {
               to[0]->as<float>()[0] = value_of(*in[0]) + value_of(*in[1]) + value_of(*in[2]);
               return {};
             })
      .output("after")
      .state("after", "before");
  start();
  float sum = 0;
  for (int round = 0; round < 5; ++round) {
    remote->hold("second:1", true);
    push(4);
    remote->wait_for_calls("second:1", 1);
    remote->forget("first:1");
    remote->hold("second:1", false);
    for (int i = 0; i < 4; ++i) {
      const Output output = pop();
      ASSERT_TRUE(output.ok()) << output.error().message();
      sum += 2 * static_cast<float>(output.number());
      EXPECT_EQ(value_of(output[0]), sum);
    }
  }
}

TEST_F(Remade, NotOnceItsTimeIsOver) {
  two_stages("fourth:1/cpu:0");
  start();
  remote->hold("second:1", true);
  auto deadline = std::chrono::steady_clock::now();
  for (auto age = std::chrono::milliseconds(1); remote->calls("second:1") == 0; age *= 2) {
    deadline = std::chrono::steady_clock::now() + age;
    push(1, {.deadline = deadline});
    while (remote->calls("second:1") == 0) {
      auto popped = pipeline->try_pop();
      if (!popped) continue;
      EXPECT_EQ((*popped)->number(), static_cast<FrameNumber>(out++));
      EXPECT_EQ((*popped)->error().code, Code::kDeadlineExceeded);
      break;
    }
  }
  while (std::chrono::steady_clock::now() <= deadline) std::this_thread::yield();
  remote->lose("first:1");
  remote->hold("second:1", false);
  EXPECT_EQ(pop().error().code, Code::kDeadlineExceeded);
  EXPECT_THAT(remote->computed("fourth:1"), IsEmpty());
}

TEST_F(Remade, AfterTheLastFrameWentThroughItsStage) {
  two_stages("fourth:1/cpu:0");
  start();
  while_read(4, [&] {
    pipeline->close();
    remote->lose("first:1");
  });
  pop_good(4, 6);
  EXPECT_TRUE(pipeline->drain(kLong));
}

TEST_F(Remade, NotForFramesThatAreCancelled) {
  two_stages("fourth:1/cpu:0");
  start();
  remote->hold("fourth:1", true);
  while_read(4, [&] { remote->lose("first:1"); });
  remote->wait_for_calls("fourth:1", 4);
  pipeline->cancel();
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(pop().ok());
}

TEST_F(Remade, OfFramesThatAnEdgeMightHaveDropped) {
  two_stages("fourth:1/cpu:0");
  network.finish();
  for (auto& edge : network.plan.edges) {
    edge.policy = edge.from == plan::kPipelineInput ? plan::FullPolicy::kDropOldest
                                                    : plan::FullPolicy::kBlock;
  }
  start();
  while_read(2, [&] {
    remote->lose("first:1");
    push(2);
  });
  pop_good(4, 6);
}

// What peers have is lost again and again under load: each frame comes out once, in order, right.
TEST_F(Remade, WhateverThePeersDo) {
  far(
      "a", {"in"}, {"y", "u"},
      [](Inputs in, Outputs to) -> Status {
        to[0]->as<float>()[0] = 2 * value_of(*in[0]);
        to[1]->as<float>()[0] = value_of(*in[0]);
        return {};
      },
      "fourth:1/cpu:0");
  far("b", {"y"}, {"z"}, times(3), "fifth:1/cpu:0");
  far(
      "c", {"z", "u"}, {"out"},
      [](Inputs in, Outputs to) -> Status {
        to[0]->as<float>()[0] = value_of(*in[0]) + value_of(*in[1]);
        return {};
      },
      "sixth:1/cpu:0");
  network.output("out");
  start(4);
  constexpr int kFrames = 2000;
  std::thread pusher([&] { push(kFrames); });
  unsigned random = 1;
  // Seldom enough that no frame is hit more often than it is tried again.
  for (int popped = 0; popped < kFrames; popped += 20) {
    pop_good(20, 7);
    const char* const peers[] = {"first:1", "second:1", "third:1"};
    random = random * 1103515245 + 12345;
    const std::string peer = peers[(random >> 16) % 3];
    (random >> 20) % 2 == 0 ? remote->lose(peer) : remote->restore(peer);
  }
  pusher.join();
}

}  // namespace
}  // namespace penstock::pipeline::remakes_test
