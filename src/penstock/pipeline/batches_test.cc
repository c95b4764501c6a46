// Batches: several frames in one call of a stage.
#include <array>
#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/pipeline/pipeline.h"
#include "tests/support/fake_device.h"
#include "tests/support/temporary_folder.h"

namespace penstock::pipeline::batches_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

using std::chrono::microseconds;
using std::chrono::milliseconds;
constexpr std::chrono::nanoseconds kLong = std::chrono::seconds(60);

/// A door that a stage's calls wait at.
class Gate {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait_for_one() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

// in -> first (as it is; frame 0 waits at the gate) -> net (2 x + 1, several frames in a call) ->
// out
struct Batches : ::testing::Test {
  Batches() {
    network.input("in")
        .stage("first", {"in"}, {"x"}, unary([](float x) { return x; }))
        .stage("net", {"x"}, {"y"},
               [this](Inputs in, Outputs to) -> Status {
                 if (value_of(*in[0]) == bad) return make_error(Code::kUnknown, "bad frame");
                 if (value_of(*in[0]) == 0 && holds.exchange(false)) gate.wait();
                 to[0]->as<float>()[0] = 2 * value_of(*in[0]) + 1;
                 return {};
               })
        .output("y");
  }

  void start(const plan::StreamOptions& stream = {.capacity = 16}) {
    auto started = network.start(stream);
    ASSERT_TRUE(started) << started.error().message();
    pipeline = *std::move(started);
    rows_read.clear();
    holds = holds_at_first;
  }
  void take_together(const std::vector<int>& sizes) {
    network.together("net", sizes, [this](Inputs in) -> Status {
      const std::scoped_lock lock(mutex);
      rows_read.push_back(in[0]->data());
      return {};
    });
  }
  void push(int frames) {
    for (int i = 0; i < frames; ++i) {
      ASSERT_TRUE(pipeline->push(std::vector{number(static_cast<float>(pushed++))}, kLong));
    }
  }
  /// Frame 0 is computed alone; those behind it wait in front of the stage meanwhile.
  void push_behind_the_gate(int frames) {
    push(1);
    gate.wait_for_one();
    push(frames);
    wait_for_all_in_front();
    gate.open();
  }
  /// Until the first stage is done with all that was pushed. \pre  the second is done with none.
  void wait_for_all_in_front() {
    wait_until([&] { return pipeline->stats().edges[1].depth == static_cast<unsigned>(pushed); });
  }
  void wait_for_full_calls() {
    network.plan.stages[1].batch.wait = std::chrono::seconds(600);
    holds_at_first = false;
  }
  template <typename Condition>
  static void wait_until(Condition condition) {
    while (!condition()) std::this_thread::sleep_for(milliseconds(1));
  }
  Output pop() {
    auto popped = pipeline->pop(kLong);
    EXPECT_TRUE(popped && *popped);
    EXPECT_EQ((*popped)->number(), static_cast<FrameNumber>(out++));
    return **std::move(popped);
  }
  void pop_good(int frames) {
    for (int i = 0; i < frames; ++i) {
      const Output output = pop();
      ASSERT_TRUE(output.ok()) << output.error().message();
      EXPECT_EQ(value_of(output[0]), 2 * static_cast<float>(output.number()) + 1);
    }
  }
  StageStats net() { return pipeline->stats().stages[1]; }

  FakeNetwork network;
  std::atomic<float> bad{-1};
  std::atomic<bool> holds{false};
  bool holds_at_first = true;
  Gate gate;
  std::mutex mutex;
  std::vector<const void*> rows_read;
  std::unique_ptr<Pipeline> pipeline;
  int pushed = 0, out = 0;
};

TEST_F(Batches, TakeWhatIsThere) {
  take_together({2, 4});
  start();
  push_behind_the_gate(7);
  pop_good(8);
  EXPECT_THAT(net().calls, ElementsAre(1, 0, 1, 1));  // 1, 4, 3.
  EXPECT_EQ(net().surplus, 1);                        // Three frames in a call for four.
  EXPECT_EQ(net().frames, 8);
}

TEST_F(Batches, FramesOneBehindTheOtherAreNotCopied) {
  take_together({4});
  start();
  push_behind_the_gate(4);
  pop_good(5);
  EXPECT_THAT(net().calls, ElementsAre(1, 0, 0, 1));
  EXPECT_EQ(net().copies, 0);
}

TEST_F(Batches, FramesAtBothEndsOfAnEdgeAreCopiedAndCounted) {
  take_together({4});
  wait_for_full_calls();
  start({.capacity = 6});
  push(4);
  pop_good(4);
  EXPECT_EQ(net().copies, 0);
  push(4);  // In slots 4, 5, 0 and 1.
  pop_good(4);
  EXPECT_THAT(net().calls, ElementsAre(0, 0, 0, 2));
  EXPECT_EQ(net().copies, 8);
}

TEST_F(Batches, AFailingFrameFailsAlone) {
  take_together({8});
  bad = 3;
  start();
  push_behind_the_gate(7);
  pop_good(3);
  const Output failed = pop();
  ASSERT_EQ(failed.outcome(), Outcome::kError);
  EXPECT_EQ(failed.error().message(), "stage 'net': frame 3: bad frame");
  pop_good(4);
  EXPECT_THAT(net().calls, ElementsAre(8, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(net().errors, 1);
}

TEST_F(Batches, HoldFramesThatFailedBeforeNotAtAll) {
  network.backend->models.at("first.onnx").run = [](Inputs in, Outputs to) -> Status {
    if (value_of(*in[0]) == 2) return make_error(Code::kUnknown, "not this one");
    to[0]->as<float>()[0] = value_of(*in[0]);
    return {};
  };
  take_together({4});
  start();
  push(1);
  gate.wait_for_one();
  push(4);
  wait_for_all_in_front();
  gate.open();
  pop_good(2);
  EXPECT_EQ(pop().error().message(), "stage 'first': frame 2: not this one");
  pop_good(2);
  EXPECT_THAT(net().calls, ElementsAre(1, 0, 1, 0));
}

TEST_F(Batches, WaitForMoreAsLongAsThePlanSays) {
  take_together({4});
  wait_for_full_calls();
  start();
  push(8);
  pop_good(8);
  EXPECT_THAT(net().calls, ElementsAre(0, 0, 0, 2));
  push(2);
  pipeline->close();  // None will come.
  pop_good(2);
  EXPECT_THAT(net().calls, ElementsAre(0, 1, 0, 2));
}

// Zeros, or what a frame left there that failed, may be no fair input, as to a division.
TEST_F(Batches, RowsWithoutAFrameHoldTheFirstOneAgain) {
  std::vector<float> last;
  network.together("net", {4}, [&](Inputs in) -> Status {
    const std::scoped_lock lock(mutex);
    last.assign(in[0]->as<float>().begin(), in[0]->as<float>().end());
    const bool fair = std::ranges::none_of(last, [](float x) { return x == 0 || x == 8; });
    return fair ? Status() : make_error(Code::kUnknown, "divides by zero");
  });
  wait_for_full_calls();
  for (const int before : {0, 8}) {  // The last four, of which one fails, do not lie side by side.
    pushed = 1, out = 0;
    start({.capacity = 6});
    for (int i = 0; i < before; i += 4) {
      push(4);
      for (int k = 0; k < 4; ++k) EXPECT_TRUE(pop().ok());
    }
    const auto first = static_cast<float>(pushed);
    push(3);
    pipeline->close();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(pop().ok());
    EXPECT_THAT(last, ElementsAre(first, first + 1, first + 2, first));
    EXPECT_EQ(net().calls[2], 1) << before;
  }
}

TEST_F(Batches, WaitForNoMoreWhereSomebodyDrains) {
  take_together({4});
  wait_for_full_calls();
  holds_at_first = true;
  start();
  push(4);
  gate.wait_for_one();  // In a full call. What comes while somebody drains may be taken alone.
  push(2);
  wait_for_all_in_front();
  gate.open();
  EXPECT_TRUE(pipeline->drain(kLong));
  pop_good(6);
  EXPECT_THAT(net().calls, ElementsAre(0, 1, 0, 1));
}

TEST_F(Batches, WaitForNoMoreThanAnEdgeHolds) {
  take_together({2, 4});
  wait_for_full_calls();
  network.finish();
  network.plan.edges[1].capacity = 2;  // first -> net
  network.plan.edges[0].capacity = network.plan.edges[2].capacity = 16;
  start({});
  push(4);
  pop_good(4);  // Long before the plan's 600 s are over.
  EXPECT_THAT(net().calls, ElementsAre(0, 2, 0, 0));
}

TEST_F(Batches, WaitForNoMoreThanMayBeInFlight) {
  take_together({2, 4});
  wait_for_full_calls();
  start({.capacity = 2});
  push(2);
  pop_good(2);
  EXPECT_THAT(net().calls, ElementsAre(0, 1, 0, 0));
}

// in -> first -> x -> net -> y, and x leads past net: while that waits, x is kept for who reads
// both.
TEST_F(Batches, WaitForNoMoreThanAnEdgePastTheStageHolds) {
  network
      .stage("both", {"x", "y"}, {"z"},
             [](Inputs in, Outputs to) -> Status {
               to[0]->as<float>()[0] = value_of(*in[1]) + 0 * value_of(*in[0]);
               return {};
             })
      .output("z");
  take_together({2, 4});
  wait_for_full_calls();
  for (auto& edge : network.finish().edges) {
    edge.capacity = std::ranges::find(edge.tensors, "x") == edge.tensors.end() ? 16 : 2;
  }
  start({});
  push(2);
  pop_good(2);
  EXPECT_THAT(net().calls, ElementsAre(0, 1, 0, 0));
}

// Who waits there when the edge is full is lost, or keeps out those that come.
TEST_F(Batches, WaitForNoMoreThanAnEdgeKeepsThatMayDropFrames) {
  using plan::FullPolicy;
  take_together({2, 4});
  wait_for_full_calls();
  for (const auto policy : {FullPolicy::kDropOldest, FullPolicy::kDropNewest, FullPolicy::kError}) {
    pushed = out = 0;
    auto& edge = network.finish().edges[1];  // first -> net
    edge.policy = policy, edge.capacity = 2;
    start({});
    for (int round = 0; round < 2; ++round) {
      push(2);
      pop_good(2);
    }
    EXPECT_THAT(net().calls, ElementsAre(0, 2, 0, 0)) << plan::to_string(policy);
  }
  network.plan.edges[1].policy = FullPolicy::kLatest;
  pushed = out = 0;
  start({});
  push(1);
  pop_good(1);
}

TEST_F(Batches, AreComputedInTimeForADeadline) {
  take_together({4});
  wait_for_full_calls();
  start({.capacity = 16, .max_age = std::chrono::seconds(12)});  // It waits for half of that.
  push(1);
  pop_good(1);  // Long before the plan's 600 s are over.
}

TEST_F(Batches, ShareWhatIsThereAmongReplicas) {
  network.plan.stages[1].devices.push_back(network.plan.stages[1].devices.front());
  take_together({8});
  holds_at_first = false;
  start();
  for (int round = 0; round < 50; ++round) {
    push(16);
    pop_good(16);
  }
}

// in -> net (calls of 4) -> out
TEST(BatchesBehindALossyEdge, LeaveTheEdgeItsCapacityWhileTheyAreRead) {
  Gate gate;
  std::atomic<bool> holds{false};
  FakeNetwork network;
  network.input("in").stage("net", {"in"}, {"y"}, unary([](float x) { return x; })).output("y");
  network.together("net", {4}, [&](Inputs) -> Status {
    if (holds.exchange(false)) gate.wait();
    return {};
  });
  network.plan.stages[0].batch.wait = std::chrono::seconds(600);
  auto& edge = network.finish().edges[0];
  edge.policy = plan::FullPolicy::kDropOldest, edge.capacity = 4;
  auto pipeline = *network.start();
  holds = true;
  const auto push = [&](int from, int to) {
    for (int i = from; i < to; ++i) {
      ASSERT_TRUE(pipeline->push(std::vector{number(static_cast<float>(i))}, kLong));
    }
  };
  push(0, 4);
  gate.wait_for_one();
  push(4, 9);
  pipeline->close();  // No call waits for more.
  gate.open();
  for (FrameNumber frame = 0; frame < 9; ++frame) {
    const auto output = pipeline->pop(kLong);
    ASSERT_TRUE(output && *output);
    EXPECT_EQ((*output)->outcome(), frame == 4 ? Outcome::kDropped : Outcome::kOk) << frame;
  }
}

// in -> net (a part that writes "y_between", and one that writes "y") -> out
TEST(BatchMemory, WhatCallsHaveBesidesTheSlotsCounts) {
  FakeNetwork network;
  network.input("in").state_input("between");
  network.stage("net", {"in"}, {"y"}, unary([](float x) { return x; }), 3).output("y");
  network.finish();
  const auto beside = [&] {
    return *memory_ceiling(network.with({.capacity = 4}), {.max_held = 0}) - 2 * 4 * sizeof(float);
  };
  EXPECT_EQ(beside(), 0U);
  auto& stage = network.plan.stages[0];
  stage.partitions.push_back(stage.partitions[0]);
  stage.partitions[0].outputs = stage.partitions[1].inputs = {"between"};
  EXPECT_EQ(beside(), 3 * sizeof(float));  // Of each replica.
  stage.batch.frames = 4;
  // Rows of what is read, between and written, of all sizes up to 4.
  EXPECT_EQ(beside(), 3 * (1 + 3 * 2 * 4) * sizeof(float));
  std::ranges::find(network.plan.tensors, "between", &plan::TensorInfo::name)->type.dims[0].size =
      std::int64_t{1} << 50U;
  EXPECT_THAT(network.start().error().message(), HasSubstr("the edges and calls may take "));
}

TEST_F(Batches, ACallThatHangsFailsAllItsFrames) {
  Gate hang;
  network.together("net", {4}, [&](Inputs) -> Status {
    if (pushed > 0) hang.wait();  // Not while it warms up.
    return {};
  });
  wait_for_full_calls();
  network.plan.stages[1].max_run = milliseconds(50);
  start();
  push(4);
  for (int frame = 0; frame < 4; ++frame) {
    EXPECT_THAT(pop().error().message(),
                HasSubstr(concat("stage 'net': frame ", frame, ": the call hangs")));
  }
  EXPECT_FALSE(pipeline->push(std::vector{number(4)}));
  hang.open();
  pipeline.reset();
  wait_until([&] { return network.backend->alive() == 0; });  // The call came back.
}

TEST_F(Batches, ParametersChangeBetweenCalls) {
  const TemporaryFolder folder;
  FakeNetwork made;
  made.folder = folder.path();
  made.parameter("w", number(1));
  made.input("in")
      .stage("net", {"in", "w"}, {"y"},
             [this](Inputs in, Outputs to) -> Status {
               if (value_of(*in[0]) == 0 && holds.exchange(false)) gate.wait();
               to[0]->as<float>()[0] = value_of(*in[0]) * value_of(*in[1]);
               return {};
             })
      .output("y")
      .together("net", {4});
  auto started = made.start({.capacity = 16});
  ASSERT_TRUE(started) << started.error().message();
  pipeline = *std::move(started);
  holds = true;
  push(1);
  gate.wait_for_one();
  push(2);
  ASSERT_TRUE(pipeline->set_parameters("", Named{{"w", number(10)}}));
  push(2);
  gate.open();
  for (const float expected : {0.F, 1.F, 2.F, 30.F, 40.F}) EXPECT_EQ(value_of(pop()[0]), expected);
  EXPECT_THAT(pipeline->stats().stages[0].calls, ElementsAre(1, 2, 0, 0));
}

TEST_F(Batches, ADeviceTakesThemToo) {
  const auto device = std::make_shared<FakeDevice>();
  network.registry.add(device);
  take_together({2, 4});
  device->take(network, "net");
  holds_at_first = false;
  start();
  device->hold(true);
  push(16);
  device->wait_for(3);
  wait_for_all_in_front();
  device->hold(false);
  pop_good(16);
  EXPECT_EQ(net().frames, 16);
  EXPECT_GT(net().calls[3], 0);
}

TEST_F(Batches, OfADeviceAFailingFrameFailsAloneToo) {
  const auto device = std::make_shared<FakeDevice>();
  network.registry.add(device);
  take_together({2, 4});
  device->take(network, "net");
  bad = 5;
  holds_at_first = false;
  start();
  device->hold(true);
  push(16);
  device->wait_for(3);
  wait_for_all_in_front();
  device->hold(false);
  pop_good(5);
  EXPECT_EQ(pop().error().message(), "stage 'net': frame 5: bad frame");
  pop_good(10);
}

// in, s -> net (s + x, several streams in a call) -> y, which is the stream's next s.
struct BatchesOfStreams : ::testing::Test {
  static constexpr int kStreams = 4;

  BatchesOfStreams() {
    network.input("in").state_input("s");
    network.stage("net", {"in", "s"}, {"y"}, [this](Inputs in, Outputs to) -> Status {
      if (value_of(*in[0]) == bad) return make_error(Code::kUnknown, "bad frame");
      to[0]->as<float>()[0] = value_of(*in[0]) + value_of(*in[1]);
      return {};
    });
    network.state("y", "s").output("y").together("net", {2, 4});
    network.plan.streams.most = kStreams;
    network.plan.stages[0].batch.wait = std::chrono::seconds(600);
  }
  void start() {
    auto started = network.start({.capacity = 8});
    ASSERT_TRUE(started) << started.error().message();
    pipeline = *std::move(started);
  }
  void push(float value, std::uint64_t stream) {
    ASSERT_TRUE(pipeline->push(std::vector{number(value)}, kLong, {.stream = stream}));
  }
  Output pop() { return **pipeline->pop(kLong); }

  FakeNetwork network;
  float bad = -1;
  std::unique_ptr<Pipeline> pipeline;
};

TEST_F(BatchesOfStreams, HoldOneFrameOfEach) {
  start();
  for (int round = 1; round <= 3; ++round) {
    for (std::uint64_t stream = 0; stream < kStreams; ++stream) {
      push(static_cast<float>(stream + 1), stream);
    }
    for (int stream = 0; stream < kStreams; ++stream) {
      EXPECT_EQ(value_of(pop()[0]), static_cast<float>(round * (stream + 1)));
    }
  }
  EXPECT_THAT(pipeline->stats().stages[0].calls, ElementsAre(0, 0, 0, 3));
}

TEST_F(BatchesOfStreams, EachStreamHasOneOfTheReplicasForItsHome) {
  network.plan.stages[0].devices.push_back(network.plan.stages[0].devices.front());
  network.plan.stages[0].batch.wait = std::chrono::seconds(0);
  start();
  constexpr int kFrames = 400;
  std::thread pusher([&] {
    for (int i = 0; i < kFrames; ++i) push(1, static_cast<std::uint64_t>(i % 7 % kStreams));
  });
  std::array<float, kStreams> sums{};
  for (int i = 0; i < kFrames; ++i) {
    const auto popped = pipeline->pop(kLong);
    ASSERT_TRUE(popped && *popped);
    EXPECT_EQ((*popped)->number(), static_cast<FrameNumber>(i));
    EXPECT_EQ(value_of((**popped)[0]), ++sums[(*popped)->stream()]);
  }
  pusher.join();
}

TEST_F(BatchesOfStreams, ReplicasWaitForFullCallsOfTheirOwnStreams) {
  network.plan.stages[0].devices.push_back(network.plan.stages[0].devices.front());
  // Two of the four streams have one home.
  network.plan.stages[0].partitions.front().batched = {{2, "stages/net.b2.onnx"}};
  network.plan.stages[0].batch.frames = 2;
  start();
  for (int round = 1; round <= 5; ++round) {
    for (std::uint64_t stream = 0; stream < kStreams; ++stream) push(1, stream);
    for (int i = 0; i < kStreams; ++i) EXPECT_EQ(value_of(pop()[0]), static_cast<float>(round));
  }
  EXPECT_THAT(pipeline->stats().stages[0].calls, ElementsAre(0, 10));
}

// Frames that wait for another replica take its slots too.
TEST_F(BatchesOfStreams, ReplicasWaitForNoMoreThanAnEdgeKeepsThatMayDropFrames) {
  network.plan.stages[0].devices.push_back(network.plan.stages[0].devices.front());
  auto& edge = network.finish().edges[0];
  edge.policy = plan::FullPolicy::kDropOldest, edge.capacity = 2;
  auto started = network.start({});
  ASSERT_TRUE(started) << started.error().message();
  pipeline = *std::move(started);
  push(1, 0);
  push(1, 1);  // Of the other replica.
  const auto first = pipeline->pop(kLong);
  ASSERT_TRUE(first && *first) << "it waits for others";
  EXPECT_TRUE((*first)->ok());
}

TEST_F(BatchesOfStreams, TheNextFrameOfAStreamBeginsTheNextCall) {
  start();
  for (const std::uint64_t stream : {0, 1, 0, 1, 2, 2}) push(1, stream);
  for (const float expected : {1.F, 1.F, 2.F, 2.F, 1.F}) EXPECT_EQ(value_of(pop()[0]), expected);
  pipeline->close();
  EXPECT_EQ(value_of(pop()[0]), 2);
  EXPECT_THAT(pipeline->stats().stages[0].calls, ElementsAre(1, 1, 1, 0));
}

// Who pushes waits for it, so none will come.
TEST_F(BatchesOfStreams, WaitForNoMoreWhereAnotherPlanTakesTheirStates) {
  start();
  push(1, 0);
  auto replaced = std::async(std::launch::async, [&] {
    return pipeline->replace(network.plan, network.folder, network.registry);
  });
  EXPECT_EQ(replaced.wait_for(kLong), std::future_status::ready);
  pipeline->close();
  EXPECT_TRUE(replaced.get());
  EXPECT_EQ(value_of(pop()[0]), 1);
}

TEST_F(BatchesOfStreams, WaitForNoMoreStreamsThanThereMayBe) {
  network.plan.streams.most = 2;
  start();
  for (const std::uint64_t stream : {0, 1}) push(1, stream);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(value_of(pop()[0]), 1);  // Not after 600 s.
  EXPECT_THAT(pipeline->stats().stages[0].calls, ElementsAre(0, 1, 0, 0));
}

TEST_F(BatchesOfStreams, AFailingFrameLeavesTheStatesOfOthersRight) {
  start();
  for (std::uint64_t stream = 0; stream < kStreams; ++stream) push(1, stream);
  for (int stream = 0; stream < kStreams; ++stream) EXPECT_EQ(value_of(pop()[0]), 1);
  bad = 7;
  for (const auto& [value, stream] : {std::pair{1, 0}, {7, 1}, {1, 2}, {1, 3}}) {
    push(static_cast<float>(value), static_cast<std::uint64_t>(stream));
  }
  for (int stream = 0; stream < kStreams; ++stream) {
    const Output output = pop();
    ASSERT_EQ(output.ok(), stream != 1);
    if (stream != 1) {
      EXPECT_EQ(value_of(output[0]), 2);
    }
  }
  for (std::uint64_t stream = 0; stream < kStreams; ++stream) push(1, stream);
  for (int stream = 0; stream < kStreams; ++stream) {
    EXPECT_EQ(value_of(pop()[0]), stream == 1 ? 2 : 3);
  }
}

// A list of up to 7 items of one number, of which a call takes several.
struct BatchesOfItems : ::testing::Test {
  BatchesOfItems() {
    const Type list =
        Type::tensor(DType::kF32, std::vector<Dim>{{Dim::kOpen, "n", 7}, {1, "", Dim::kOpen}});
    network.input("offset").input("list", list);
    network.stage("net", {"list", "offset"}, {"y"},
                  [this](Inputs in, Outputs to) -> Status {
                    ++alone;
                    if (value_of(*in[0]) == bad) return make_error(Code::kUnknown, "bad item");
                    to[0]->as<float>()[0] = value_of(*in[0]) + value_of(*in[1]);
                    return {};
                  },
                  1, {list});
    auto& model = network.backend->models.at("net.onnx");
    model.inputs[0].type = model.outputs[0].type = scalar();
    network.plan.stages[0].each = {"list"};
    network.output("y").together("net", {4}, [this](Inputs) -> Status {
      ++calls;
      return together();
    });
    auto started = network.start();
    EXPECT_TRUE(started) << started.error().message();
    pipeline = *std::move(started);
    calls = 0;
  }
  Output run(int items, const FrameOptions& options = {}) {
    Tensor list = Tensor::allocate(DType::kF32, {items, 1});
    for (int i = 0; i < items; ++i) list.as<float>()[i] = static_cast<float>(i);
    EXPECT_TRUE(pipeline->push(std::vector{number(100), list}, kLong, options));
    return **pipeline->pop(kLong);
  }

  FakeNetwork network;
  float bad = -1;
  std::function<Status()> together = [] { return Status(); };
  int calls = 0;  // Of several items.
  int alone = 0;  // Items, in calls of any size.
  std::unique_ptr<Pipeline> pipeline;
};

TEST_F(BatchesOfItems, ACallTakesSeveralItemsOfAFrame) {
  for (const auto& [items, expected_calls] : {std::pair{7, 2}, {4, 1}, {1, 0}, {0, 0}}) {
    calls = 0;
    const Output output = run(items);
    ASSERT_TRUE(output.ok()) << output.error().message();
    ASSERT_EQ(output[0].dims(), (std::vector<std::int64_t>{items, 1}));
    for (int i = 0; i < items; ++i) {
      EXPECT_EQ(output[0].as<float>()[i], 100 + static_cast<float>(i)) << items;
    }
    EXPECT_EQ(calls, expected_calls);
  }
  // All items of a frame are one call of the stage.
  EXPECT_THAT(pipeline->stats().stages[0].calls, ElementsAre(4));
}

TEST_F(BatchesOfItems, RowsOfACallWithoutAnItemAreCounted) {
  EXPECT_TRUE(run(4).ok());
  EXPECT_EQ(pipeline->stats().stages[0].surplus, 0);
  EXPECT_TRUE(run(6).ok());
  EXPECT_EQ(pipeline->stats().stages[0].surplus, 2);
  EXPECT_TRUE(run(7).ok());
  EXPECT_EQ(pipeline->stats().stages[0].surplus, 3);
  together = []() -> Status { return make_error(Code::kUnknown, "bad call"); };
  EXPECT_TRUE(run(7).ok());  // Each item alone.
  EXPECT_EQ(pipeline->stats().stages[0].surplus, 3);
}

TEST_F(BatchesOfItems, AnItemThatFailsIsNamed) {
  bad = 5;
  EXPECT_EQ(run(7).error().message(), "stage 'net': frame 0: item 5: bad item");
  EXPECT_TRUE(run(5).ok());
}

TEST_F(BatchesOfItems, AreNotComputedPastTheDeadlineOfTheirFrame) {
  for (const bool fails : {false, true}) {  // A call of several; then each would be run alone.
    calls = alone = 0;
    const auto deadline = std::chrono::steady_clock::now() + milliseconds(500);
    together = [&]() -> Status {
      std::this_thread::sleep_until(deadline + milliseconds(1));
      return fails ? make_error(Code::kUnknown, "bad call") : Status();
    };
    const Output output = run(7, {.deadline = deadline});
    EXPECT_EQ(output.error().code, Code::kDeadlineExceeded);
    EXPECT_LE(calls, 1);
    EXPECT_LE(alone, fails ? 0 : 4);
  }
}

TEST_F(BatchesOfItems, EndWithACancelledFrame) {
  for (const bool fails : {false, true}) {  // A call of several; then each would be run alone.
    const FrameNumber frame = fails ? 1 : 0;
    calls = alone = 0;
    together = [&]() -> Status {
      pipeline->cancel(frame);
      return fails ? make_error(Code::kUnknown, "bad call") : Status();
    };
    EXPECT_EQ(run(7).outcome(), Outcome::kCancelled);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(alone, fails ? 0 : 4);
  }
  together = [] { return Status(); };
  EXPECT_TRUE(run(7).ok());
  EXPECT_EQ(pipeline->stats().stages[0].errors, 0U);
}

// A tensor whose memory `held` tells of.
Tensor watched_number(float value, std::weak_ptr<float>& held) {
  auto memory = std::make_shared<float>(value);
  held = memory;
  return Tensor::view(DType::kF32, {1}, memory.get(), memory);
}

TEST(BatchesOfPushedTensors, HoldNoneOfThemBeyondTheirCall) {
  FakeNetwork network;
  network.input("in")
      .stage("a", {"in"}, {"out"}, unary([](float x) { return 2 * x; }))
      .output("out");
  network.together("a", {2}, [](Inputs in) -> Status {
    return value_of(*in[0]) == 3 ? make_error(Code::kUnknown, "bad call") : Status();
  });
  network.plan.stages[0].batch.wait = std::chrono::seconds(600);
  auto pipeline = *network.start({.capacity = 4});
  std::array<std::weak_ptr<float>, 4> held;
  for (const float first : {1.F, 3.F}) {  // A call of two frames, and one that fails.
    for (const float value : {first, first + 1}) {
      ASSERT_TRUE(pipeline->push(
          std::vector{watched_number(value, held.at(static_cast<std::size_t>(value) - 1))}, kLong));
    }
    for (int i = 0; i < 2; ++i) ASSERT_TRUE((**pipeline->pop(kLong)).ok());
  }
  Batches::wait_until([&] {  // A frame's inputs are let go just behind it.
    return std::ranges::all_of(held, [](const auto& each) { return each.expired(); });
  });
}

TEST_F(Batches, ModelsThatDoNotFitAreRefused) {
  take_together({4});
  network.backend->models.at("net.b4.onnx").inputs.front().type.dims.front().size = 3;
  network.finish();
  const auto started = network.start();
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message(),
              HasSubstr("stage 'net': the model for 4 frames of 'stages/net.onnx': tensor 'x' is "
                        "f32[3]: expected f32[4]; split the model again"));
}

TEST_F(Batches, WithoutModelsAreRefused) {
  network.plan.stages[1].batch.frames = 4;
  network.finish();
  const auto started = network.start();
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message(), HasSubstr("stage 'net': batch: expected models for "));
}

/// 2 x + 1 of lists as long as each frame says.
struct OpenBatches : ::testing::Test {
  static Type list(std::int64_t frames, Dim first = {1, {}, Dim::kOpen}) {
    if (first.fixed()) first.size *= frames;
    return Type::tensor(DType::kF32, std::vector<Dim>{first, {Dim::kOpen, "s", 4}});
  }
  static Status compute(Inputs in, Outputs out) {
    const bool given = out[0]->kind() == Tensor::Kind::kDense;
    if (!given || !out[0]->set_dims(in[0]->dims()))
      *out[0] = Tensor::allocate(DType::kF32, in[0]->dims());
    std::ranges::transform(in[0]->as<float>(), out[0]->as<float>().begin(),
                           [](float x) { return 2 * x + 1; });
    return {};
  }
  /// Frames of such a first dimension; models for 2 and 4 of them.
  void start(Dim first = {1, {}, Dim::kOpen}, int replicas = 1) {
    network.input(behind ? "in" : "x", list(1, first));
    if (behind) {
      network.stage("first", {"in"}, {"x"},
                    [](Inputs in, Outputs out) -> Status {
                      PENSTOCK_CHECK_OK(compute(in, out));
                      const float value = in[0]->as<float>()[0];
                      std::ranges::fill(out[0]->as<float>(), value);
                      return value < 0 ? Status(internal_error("negative")) : Status();
                    },
                    1, {list(1, first)});
    }
    network.stage("net", {"x"}, {"y"}, alone, replicas, {list(1, first)}).output("y");
    auto& stage = network.plan.stages.back();
    stage.batch = {4, wait};
    for (const int frames : {2, 4}) {
      auto& model = network.backend->models[concat("net.b", frames, ".onnx")];
      model = network.backend->models.at("net.onnx");
      model.inputs.front().type = model.outputs.front().type = list(frames, first);
      model.run = [this](Inputs in, Outputs out) -> Status {
        const std::scoped_lock lock(mutex);
        rows.push_back(in[0]->dims());
        return compute(in, out);
      };
      stage.partitions.front().batched.push_back({frames, concat("stages/net.b", frames, ".onnx")});
    }
    for (auto& edge : network.finish().edges) {
      if (edge.to.back() != plan::kPipelineOutput) edge.policy = policy;
    }
    auto started = network.start({.capacity = 16});
    ASSERT_TRUE(started) << started.error().message();
    pipeline = *std::move(started);
  }
  void push(std::vector<std::int64_t> dims, float value) {
    Tensor tensor = Tensor::allocate(DType::kF32, std::move(dims));
    std::ranges::fill(tensor.as<float>(), value);
    ASSERT_TRUE(pipeline->push(std::vector{tensor}, kLong));
  }
  void pop(const std::vector<std::int64_t>& dims, float value) {
    auto popped = pipeline->pop(kLong);
    ASSERT_TRUE(popped && *popped);
    ASSERT_TRUE((*popped)->ok()) << (*popped)->error().message();
    EXPECT_EQ((**popped)[0].dims(), dims);
    EXPECT_THAT((**popped)[0].as<float>(), ::testing::Each(2 * value + 1));
  }
  /// Frames of these lengths.
  void push_all(const std::vector<std::int64_t>& lengths) {
    for (const auto length : lengths) push({1, length}, static_cast<float>(length));
  }
  void pop_all(const std::vector<std::int64_t>& lengths) {
    for (const auto length : lengths) pop({1, length}, static_cast<float>(length));
  }
  [[nodiscard]] std::vector<std::uint64_t> calls() const {
    return pipeline->stats().stages.back().calls;
  }
  /// Three frames in the model of four.
  void fill_a_call(Dim first) {
    start(std::move(first));
    for (int i = 0; i < 3; ++i) push({1, 3}, static_cast<float>(i));
    pipeline->close();
    for (int i = 0; i < 3; ++i) pop({1, 3}, static_cast<float>(i));
    EXPECT_THAT(rows, ElementsAre(ElementsAre(4, 3)));
    EXPECT_EQ(pipeline->stats().stages[0].surplus, 1);
  }

  FakeNetwork network;
  Function alone = compute;  // Computes a call of one frame.
  std::chrono::microseconds wait = std::chrono::seconds(600);
  plan::FullPolicy policy = plan::FullPolicy::kBlock;
  bool behind = false;  // Another stage is in front of it, which fails what is negative.
  std::mutex mutex;
  std::vector<std::vector<std::int64_t>> rows;  // Dims of what each call of several frames read.
  std::unique_ptr<Pipeline> pipeline;
};

TEST_F(OpenBatches, OfOneShapeShareACall) {
  start();
  for (int i = 0; i < 4; ++i) push({1, 3}, static_cast<float>(i));
  for (int i = 0; i < 4; ++i) pop({1, 3}, static_cast<float>(i));
  for (int i = 4; i < 8; ++i) push({1, 2}, static_cast<float>(i));
  for (int i = 4; i < 8; ++i) pop({1, 2}, static_cast<float>(i));
  EXPECT_THAT(rows, ElementsAre(ElementsAre(4, 3), ElementsAre(4, 2)));
  EXPECT_THAT(pipeline->stats().stages[0].calls, ElementsAre(0, 0, 0, 2));
}

TEST_F(OpenBatches, ACallEndsBeforeTheFirstFrameOfAnotherShape) {
  for (const bool second : {false, true}) {  // Frames are pushed, or come from another stage.
    network = FakeNetwork();
    behind = second;
    rows.clear();
    start();
    const std::vector<std::int64_t> lengths = {3, 2, 2, 2, 3, 2, 2, 2, 3, 2, 2, 2, 3, 2, 2, 2};
    push_all(lengths);
    pipeline->close();
    pop_all(lengths);
    EXPECT_THAT(rows, ::testing::AllOf(::testing::SizeIs(4), ::testing::Each(ElementsAre(4, 2))));
    EXPECT_THAT(calls(), ElementsAre(4, 0, 4, 0)) << second;
  }
}

TEST_F(OpenBatches, WaitForNoMoreOnceAFrameOfAnotherShapeIsThere) {
  start();
  push_all({3, 2});
  pop_all({3});
  push_all({2, 3});
  pop_all({2, 2});
  EXPECT_THAT(calls(), ElementsAre(1, 1, 0, 0));
}

TEST_F(OpenBatches, AFrameThatFailedBeforeHasNoShape) {
  behind = true;
  start();
  push({1, 3}, 3);
  push({1, 2}, -1);
  push_all({3, 3, 3});
  pop_all({3});
  const auto popped = pipeline->pop(kLong);
  ASSERT_TRUE(popped && *popped);
  EXPECT_FALSE((*popped)->ok());
  pop_all({3, 3, 3});
  EXPECT_THAT(calls(), ElementsAre(0, 0, 0, 1));
}

TEST_F(OpenBatches, FramesThatEdgesDropLeaveTheOthersRight) {
  behind = true;
  policy = plan::FullPolicy::kDropOldest;
  start();
  constexpr std::int64_t kFrames = 2000;
  for (std::int64_t i = 0; i < kFrames; ++i) push_all({2 + (i * i / 3) % 3});
  pipeline->close();
  for (std::int64_t i = 0; i < kFrames; ++i) {
    const auto popped = pipeline->pop(kLong);
    ASSERT_TRUE(popped && *popped);
    const Output& output = **popped;
    if (output.outcome() == Outcome::kDropped) continue;
    ASSERT_TRUE(output.ok()) << output.error().message();
    const auto length = 2 + (i * i / 3) % 3;
    EXPECT_EQ(output[0].dims(), (std::vector<std::int64_t>{1, length}));
    EXPECT_THAT(output[0].as<float>(), ::testing::Each(2 * static_cast<float>(length) + 1));
  }
}

TEST_F(OpenBatches, ReplicasTakeFramesOfOneShapeEach) {
  start({1, {}, Dim::kOpen}, 2);
  for (int round = 0; round < 50; ++round) {
    push_all({3, 2, 2, 3, 3, 3, 4, 2});
    if (round == 49) pipeline->close();
    pop_all(round == 0 ? std::vector<std::int64_t>{3, 2, 2, 3, 3, 3, 4}
                       : std::vector<std::int64_t>{2, 3, 2, 2, 3, 3, 3, 4});
  }
  pop_all({2});
  EXPECT_THAT(calls(), ElementsAre(150, 50, 50, 0));
}

// The first frame's call ends only once the second one's has.
TEST_F(OpenBatches, AnIdleReplicaTakesTheFrameOfAnotherShape) {
  std::binary_semaphore second{0};
  alone = [&](Inputs in, Outputs out) -> Status {
    const float value = in[0]->as<float>().empty() ? 0 : in[0]->as<float>()[0];
    if (value == 2) second.release();
    if (value == 3 && !second.try_acquire_for(std::chrono::seconds(20)))
      return internal_error("nobody took the other frame");
    return compute(in, out);
  };
  wait = std::chrono::milliseconds(200);
  start({1, {}, Dim::kOpen}, 2);
  const auto until_they_sleep = [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
  until_they_sleep();
  push_all({3});
  until_they_sleep();
  push_all({2});
  pop_all({3, 2});
}

TEST_F(OpenBatches, MayHaveSeveralRowsAFrame) {
  start({Dim::kOpen, "n", Dim::kOpen});
  for (int i = 0; i < 4; ++i) push({2, 3}, static_cast<float>(i));
  for (int i = 0; i < 4; ++i) pop({2, 3}, static_cast<float>(i));
  EXPECT_THAT(rows, ElementsAre(ElementsAre(8, 3)));
}

TEST_F(OpenBatches, FillACallWithTheFirstFrame) {
  fill_a_call({1, {}, Dim::kOpen});
}

/// The model divides what it counts of its own sizes by its number of frames.
TEST_F(OpenBatches, FillACallWhereTheRowsOfAFrameAreOpenToo) {
  fill_a_call({Dim::kOpen, "n", Dim::kOpen});
}

/// 2 x + 1 of three numbers, where the plan leaves open how many: with a bound or, of the output,
/// without.
struct LooseBatches : OpenBatches, ::testing::WithParamInterface<std::int64_t> {
  static Type three(std::int64_t frames) {
    return Type::tensor(DType::kF32, std::vector{frames, std::int64_t{3}});
  }
  void start() {
    const auto checked = [](Inputs in, Outputs out) -> Status {
      if (in[0]->dims().back() != 3) return invalid_argument("expected three numbers");
      return compute(in, out);
    };
    const Type output = Type::tensor(
        DType::kF32, std::vector<Dim>{{1, {}, Dim::kOpen}, {Dim::kOpen, "s", GetParam()}});
    network.input("x", list(1)).stage("net", {"x"}, {"y"}, checked, 1, {output}).output("y");
    auto& one = network.backend->models.at("net.onnx");
    one.inputs.front().type = one.outputs.front().type = three(1);
    network.together("net", {4}, [this](Inputs in) -> Status {
      const std::scoped_lock lock(mutex);
      rows.push_back(in[0]->dims());
      return {};
    });
    network.plan.stages.front().batch.wait = std::chrono::seconds(600);
    auto started = network.start({.capacity = 16});
    ASSERT_TRUE(started) << started.error().message();
    pipeline = *std::move(started);
    rows.clear();
  }
};
INSTANTIATE_TEST_SUITE_P(Bounds, LooseBatches, ::testing::Values(4, Dim::kOpen));

TEST_P(LooseBatches, GiveOutputsTheShapeThatTheyHave) {
  start();
  for (int i = 0; i < 4; ++i) push({1, 3}, static_cast<float>(i));
  for (int i = 0; i < 4; ++i) pop({1, 3}, static_cast<float>(i));
  EXPECT_THAT(rows, ElementsAre(ElementsAre(4, 3)));
}

TEST_P(LooseBatches, RefuseTheFrameOfAnotherShape) {
  start();
  for (const std::int64_t length : {3, 2, 3, 4}) push({1, length}, static_cast<float>(length));
  pipeline->close();
  for (const std::int64_t length : {3, 2, 3, 4}) {
    if (length == 3) {
      pop({1, 3}, 3);
      continue;
    }
    const auto popped = pipeline->pop(kLong);
    ASSERT_TRUE(popped && *popped);
    ASSERT_FALSE((*popped)->ok());
    EXPECT_THAT((*popped)->error().message(), HasSubstr("expected three numbers"));
  }
  EXPECT_TRUE(rows.empty());
}

}  // namespace
}  // namespace penstock::pipeline::batches_test
