// What each frame is pushed with, and what is done to it alone.
#include <chrono>
#include <semaphore>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/pipeline/pipeline.h"
#include "tests/support/fake_device.h"

namespace penstock::pipeline {
namespace {

using ::testing::HasSubstr;
using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
constexpr std::chrono::nanoseconds kLong = std::chrono::seconds(60);

std::unique_ptr<Pipeline> start(FakeNetwork& network, const Options& options = {}) {
  auto started = network.start(options);
  EXPECT_TRUE(started) << started.error().message();
  return *std::move(started);
}

FrameNumber push(Pipeline& pipeline, float value, const FrameOptions& options = {}) {
  const auto pushed = pipeline.push(std::vector{number(value)}, kLong, options);
  EXPECT_TRUE(pushed) << pushed.error().message();
  return *pushed;
}

Output pop(Pipeline& pipeline) {
  auto popped = pipeline.pop(kLong);
  EXPECT_TRUE(popped && *popped);
  return **std::move(popped);
}

/// Stops calls of one value until it is opened.
struct Gate {
  std::binary_semaphore entered{0}, open{0};
  std::atomic<float> stops{-1};
  std::atomic<int> calls{0};
  Function function() {
    return [this](Inputs in, Outputs out) -> Status {
      ++calls;
      if (value_of(*in[0]) == stops) {
        entered.release();
        open.acquire();
      }
      out[0]->as<float>()[0] = value_of(*in[0]);
      return {};
    };
  }
};

FakeNetwork behind(Gate& gate) {
  FakeNetwork network;
  network.input("in").stage("gate", {"in"}, {"out"}, gate.function()).output("out");
  return network;
}

TEST(DeadlineTest, IsTheFramesOwn) {
  Gate gate;
  auto network = behind(gate);
  auto pipeline = start(network);
  push(*pipeline, 1, {.deadline = Clock::now() - milliseconds(1)});
  push(*pipeline, 2);
  push(*pipeline, 3, {.deadline = Clock::now() + kLong});
  const Output late = pop(*pipeline);
  EXPECT_EQ(late.outcome(), Outcome::kError);
  EXPECT_EQ(late.error().code, Code::kDeadlineExceeded);
  EXPECT_THAT(late.error().message(), HasSubstr("stage 'gate': frame 0: deadline_exceeded: "));
  EXPECT_THAT(late.error().message(), HasSubstr(" us since its push, at most 0 us allowed"));
  EXPECT_TRUE(pop(*pipeline).ok());
  EXPECT_TRUE(pop(*pipeline).ok());
  EXPECT_EQ(gate.calls, 3);  // The warm-up is one.
}

TEST(DeadlineTest, TakesThePlaceOfMaxAge) {
  Gate gate;
  auto network = behind(gate);
  auto pipeline = start(network, {.max_age = std::chrono::microseconds(0)});
  push(*pipeline, 1);
  push(*pipeline, 2, {.deadline = Clock::now() + kLong});
  EXPECT_EQ(pop(*pipeline).error().code, Code::kDeadlineExceeded);
  EXPECT_TRUE(pop(*pipeline).ok());
}

TEST(DeadlineTest, OfAnAcquiredInput) {
  Gate gate;
  auto network = behind(gate);
  auto pipeline = start(network);
  ASSERT_TRUE(pipeline->acquire_input(kLong));
  ASSERT_TRUE(pipeline->push_acquired({.deadline = Clock::now() - milliseconds(1)}));
  EXPECT_EQ(pop(*pipeline).error().code, Code::kDeadlineExceeded);
}

// in -> far, on the device: 2 x
struct OnDevice : ::testing::Test {
  OnDevice() {
    network.registry.add(device);
    network.input("in").stage("far", {"in"}, {"out"}, unary([](float x) { return 2 * x; }));
    network.output("out");
    device->take(network, "far");
  }
  std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>();
  FakeNetwork network;
};

TEST_F(OnDevice, TheDeadlineIsToldToTheEngine) {
  auto pipeline = start(network);
  const auto deadline = Clock::now() + kLong;
  push(*pipeline, 1, {.deadline = deadline});
  EXPECT_TRUE(pop(*pipeline).ok());
  EXPECT_EQ(device->last_deadline_ns(), deadline.time_since_epoch().count());
  push(*pipeline, 1);
  EXPECT_TRUE(pop(*pipeline).ok());
  EXPECT_EQ(device->last_deadline_ns(), backend::kNoDeadline);
}

TEST(DeadlineTest, ACallThatEndsAtItIsLate) {
  const auto deadline = Clock::now() + milliseconds(2);
  FakeNetwork network;
  network.input("in")
      .stage("a", {"in"}, {"out"},
             [&](Inputs in, Outputs) -> Status {
               if (value_of(*in[0]) == 0) return {};  // The warm-up.
               while (Clock::now() <= deadline) std::this_thread::yield();
               return make_error(Code::kCancelled, "the engine ended it");
             })
      .output("out");
  auto pipeline = start(network);
  // Where the machine is so busy that the stage does not begin in time, the sentence is the same.
  push(*pipeline, 1, {.deadline = deadline});
  push(*pipeline, 2);
  const Output late = pop(*pipeline);
  EXPECT_EQ(late.error().code, Code::kDeadlineExceeded);
  EXPECT_THAT(late.error().message(), HasSubstr("stage 'a': frame 0: deadline_exceeded"));
  EXPECT_EQ(pop(*pipeline).error().code, Code::kCancelled);  // It had none.
}

}  // namespace
}  // namespace penstock::pipeline
