// Lanes: several calls of a stage in flight, on a device that computes by itself.
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/pipeline/pipeline.h"
#include "tests/support/fake_device.h"

namespace penstock::pipeline::lanes_test {
namespace {

using ::testing::HasSubstr;
using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

using std::chrono::milliseconds;
constexpr std::chrono::nanoseconds kLong = std::chrono::seconds(60);
/// What a call may take. Calls that do not hang keep to it however late their threads get a CPU.
constexpr milliseconds kMaxRun{3000};

// in -> a (here) -> far (on the device: 2 x) -> out
struct Lanes : ::testing::Test {
  Lanes() {
    network.registry.add(device);
    network.input("in")
        .stage("a", {"in"}, {"x"}, unary([](float x) { return x + 1; }))
        .stage("far", {"x"}, {"y"}, unary([](float x) { return 2 * x; }))
        .stage("b", {"y"}, {"out"}, unary([](float x) { return x; }))
        .output("out");
    device->take(network, "far");
    network.finish();
  }

  plan::Stage& far() { return network.plan.stages[1]; }

  void start(const plan::StreamOptions& stream = {.capacity = 8}, const Options& options = {}) {
    auto started = network.start(stream, options);
    ASSERT_TRUE(started) << started.error().message();
    pipeline = *std::move(started);
  }
  void push(int frames) {
    for (int i = 0; i < frames; ++i) {
      ASSERT_TRUE(pipeline->push(std::vector{number(static_cast<float>(pushed++))}, kLong));
    }
  }
  Output pop() {
    auto popped = pipeline->pop(kLong);
    EXPECT_TRUE(popped && *popped);
    EXPECT_EQ((*popped)->number(), static_cast<FrameNumber>(out++));
    return **std::move(popped);
  }
  static float expected(FrameNumber frame) { return 2 * (static_cast<float>(frame) + 1); }
  void pop_good(int frames) {
    for (int i = 0; i < frames; ++i) {
      const Output output = pop();
      ASSERT_TRUE(output.ok()) << output.error().message();
      EXPECT_EQ(value_of(output[0]), expected(output.number()));
    }
  }

  std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>();
  FakeNetwork network;
  std::unique_ptr<Pipeline> pipeline;
  int pushed = 0, out = 0;
};

TEST_F(Lanes, HoldAsManyCallsAsTheBackendLikes) {
  start();
  device->hold(true);
  push(8);
  device->wait_for(4);
  device->hold(false);
  pop_good(8);
  EXPECT_EQ(device->most_in_flight(), 4);
  EXPECT_EQ(pipeline->stats().stages[1].lanes, 4);
}

TEST_F(Lanes, AreNoMoreThanThePlanSaysNorTheEdgesHold) {
  far().lanes = 3;
  start();
  EXPECT_EQ(pipeline->stats().stages[1].lanes, 3);
  far().lanes = 0;
  start({.capacity = 2});
  EXPECT_EQ(pipeline->stats().stages[1].lanes, 2);
  EXPECT_EQ(pipeline->stats().stages[0].lanes, 1);
}

TEST_F(Lanes, ThatAStageDoesNotGetAreToldAtTheStart) {
  std::vector<std::string> told;
  const Options options{.warn = [&](const std::string& text) { told.push_back(text); }};
  far().lanes = 2;
  start({.capacity = 8}, options);
  EXPECT_THAT(told, ::testing::IsEmpty());
  start({.capacity = 1}, options);
  EXPECT_THAT(told, ::testing::ElementsAre("stage 'far': may have 2 calls in flight (lanes), and "
                                           "has 1: an edge of it holds no more frames; expected "
                                           "a larger capacity"));
  told.clear();
  network.plan.stages[0].lanes = 4;
  start({.capacity = 8}, options);
  EXPECT_THAT(told, ::testing::ElementsAre(::testing::AllOf(
                        ::testing::StartsWith("stage 'a': may have 4 calls in flight (lanes), "
                                              "and has 1: backend '"),
                        HasSubstr("' computes on the stage's own thread"))));
}

TEST_F(Lanes, ANewFrameStartsWhileTheOldestIsWaitedFor) {
  start();
  device->hold(true);
  for (int calls = 1; calls <= 4; ++calls) {
    push(1);
    device->wait_for(calls);
  }
  device->hold(false);
  pop_good(4);
}

TEST_F(Lanes, NeedNoThreadsOfTheirOwn) {
  device->contexts = 8;
  const auto threads = [] {
    namespace fs = std::filesystem;
    return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator());
  };
  const auto before = threads();
  start();
  EXPECT_EQ(threads(), before + 3);
}

TEST_F(Lanes, KeepOrderBehindReplicasToo) {
  far().devices.push_back(far().devices.front());
  device->latency = milliseconds(1);
  start();
  for (int round = 0; round < 20; ++round) {
    push(8);
    pop_good(8);
  }
}

TEST_F(Lanes, ACallThatFailsConcernsItsFrameOnly) {
  FakeNetwork failing;
  failing.registry.add(device);
  failing.input("in")
      .stage("far", {"in"}, {"out"},
             [](Inputs in, Outputs made) -> Status {
               if (static_cast<int>(value_of(*in[0])) % 3 == 1) return internal_error("odd");
               made[0]->as<float>()[0] = 2 * value_of(*in[0]);
               return {};
             })
      .output("out");
  device->take(failing, "far");
  auto started = failing.start({.capacity = 4});
  ASSERT_TRUE(started) << started.error().message();
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE((*started)->push(std::vector{number(static_cast<float>(i))}, kLong));
    if (i % 4 != 3) continue;
    for (int k = i - 3; k <= i; ++k) {
      const auto output = (*started)->pop(kLong);
      ASSERT_TRUE(output && *output);
      ASSERT_EQ((*output)->ok(), k % 3 != 1);
      if ((*output)->ok()) {
        EXPECT_EQ(value_of((**output)[0]), 2.0F * static_cast<float>(k));
        continue;
      }
      EXPECT_EQ((*output)->error().message(), concat("stage 'far': frame ", k, ": odd"));
    }
  }
}

TEST_F(Lanes, ACallThatHangsLosesItsFrameAndTheLaneIsOpenedAnew) {
  far().max_run = kMaxRun;
  far().max_left_behind = 1;
  device->lose(2);
  start();
  push(8);
  for (int i = 0; i < 8; ++i) {
    const Output output = pop();
    ASSERT_EQ(output.ok(), i != 2);
    if (output.ok()) {
      EXPECT_EQ(value_of(output[0]), expected(output.number()));
    } else {
      EXPECT_EQ(output.error().code, Code::kDeadlineExceeded);
      EXPECT_THAT(output.error().message(), HasSubstr("stage 'far': frame 2: the call hangs"));
    }
  }
  EXPECT_FALSE(pipeline->closed_by());
  // What comes back late is written where nobody reads, and makes room for the next that hangs.
  push(7);
  device->let_go();
  pop_good(7);
  while (device->in_flight() > 0) std::this_thread::yield();
  device->lose(17);
  push(8);
  for (int i = 15; i < 23; ++i) EXPECT_EQ(pop().ok(), i != 17);
  EXPECT_FALSE(pipeline->closed_by());
  push(8);
  pop_good(8);
  device->let_go();
}

TEST_F(Lanes, ACallThatIsLostReadsWhatItWasGivenForAsLongAsItGoesOn) {
  std::mutex mutex;
  std::vector<float> read;
  network.backend->models.at("far.onnx").run = [&](Inputs in, Outputs made) -> Status {
    const std::scoped_lock lock(mutex);
    read.push_back(value_of(*in[0]));
    made[0]->as<float>()[0] = 2 * read.back();
    return {};
  };
  device->take(network, "far");
  far().max_run = kMaxRun;
  far().max_left_behind = 1;
  device->deaf = true;
  start({.capacity = 2});
  device->lose(0);
  push(1);
  EXPECT_EQ(pop().outcome(), Outcome::kError);
  for (int i = 0; i < 8; ++i) {  // Each slot is written anew.
    push(1);
    pop_good(1);
  }
  read.clear();
  device->let_go();
  while (device->in_flight() > 0) std::this_thread::yield();
  EXPECT_THAT(read, ::testing::ElementsAre(1));
}

TEST_F(Lanes, PastThoseThatThePlanAllowsFramesAreUnavailableUntilOneIsBack) {
  far().max_run = kMaxRun;
  far().max_left_behind = 1;
  start();
  for (const int frame : {0, 1}) {
    device->lose(static_cast<FrameNumber>(frame));
    push(1);
    EXPECT_EQ(pop().error().code, Code::kDeadlineExceeded);
  }
  push(8);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(pop().error().code, Code::kUnavailable);
  device->let_go();
  while (device->in_flight() > 0) std::this_thread::yield();
  push(8);
  pop_good(8);
  EXPECT_FALSE(pipeline->closed_by());
}

TEST_F(Lanes, WhereNoCallMayBeLeftBehindOneThatHangsEndsThePipeline) {
  far().max_run = kMaxRun;
  device->lose(1);
  start();
  push(2);
  EXPECT_TRUE(pop().ok());
  EXPECT_EQ(pop().outcome(), Outcome::kError);
  ASSERT_TRUE(pipeline->closed_by());
  EXPECT_THAT(pipeline->closed_by()->message(), HasSubstr("stage 'far': frame 1: the call hangs"));
  EXPECT_FALSE(*pipeline->pop(kLong));
  device->let_go();
}

TEST_F(Lanes, CancelEndsTheCallsInFlight) {
  start();
  device->hold(true);
  push(8);
  device->wait_for(4);
  pipeline->cancel();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(pop().outcome(), Outcome::kCancelled);
}

TEST_F(Lanes, CallsThatNeverEndMayBeLeftBehind) {
  start();
  device->lose(0);
  push(1);
  device->wait_for(1);
  EXPECT_FALSE(pipeline->end(milliseconds(1)));
  static_cast<void>(pipeline->leave_behind());
  EXPECT_TRUE(pipeline->end(kForever));
  EXPECT_EQ(pop().outcome(), Outcome::kCancelled);
  pipeline.reset();
  device->let_go();
}

TEST_F(Lanes, WorkBesideEdgesThatDrop) {
  for (const auto policy : {plan::FullPolicy::kDropOldest, plan::FullPolicy::kDropNewest}) {
    network.plan.edges[1].policy = policy;
    network.plan.edges[2].policy = policy;
    out = pushed = 0;
    start({.capacity = 2});
    push(40);
    for (int i = 0; i < 40; ++i) {
      const Output output = pop();
      if (output.ok()) {
        EXPECT_EQ(value_of(output[0]), expected(output.number()));
      } else {
        EXPECT_EQ(output.outcome(), Outcome::kDropped);
      }
    }
  }
}

}  // namespace
}  // namespace penstock::pipeline::lanes_test
