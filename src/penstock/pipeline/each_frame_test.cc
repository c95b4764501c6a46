// What each frame is pushed with, and what is done to it alone.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <future>
#include <mutex>
#include <semaphore>
#include <set>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/option_name.h"
#include "penstock/base/words.h"
#include "penstock/device/affinity.h"
#include "penstock/pipeline/parker.h"
#include "penstock/pipeline/pipeline.h"
#include "tests/support/fake_device.h"
#include "tests/support/no_more_threads.h"

namespace penstock::pipeline::each_frame_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
constexpr std::chrono::nanoseconds kLong = std::chrono::seconds(60);

std::unique_ptr<Pipeline> start(FakeNetwork& network, const plan::StreamOptions& stream = {},
                                const Options& options = {}) {
  auto started = network.start(stream, options);
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
  EXPECT_THAT(late.error().message(),
              HasSubstr("stage 'gate': frame 0: deadline_exceeded: its deadline had passed before "
                        "its push"));
  EXPECT_TRUE(pop(*pipeline).ok());
  EXPECT_TRUE(pop(*pipeline).ok());
  EXPECT_EQ(gate.calls, 3);  // The warm-up is one.
}

TEST(DeadlineTest, TakesThePlaceOfMaxAge) {
  Gate gate;
  auto network = behind(gate);
  gate.stops = 5;
  auto pipeline = start(network, {.max_age = std::chrono::microseconds(1)});
  push(*pipeline, 5, {.deadline = Clock::now() + kLong});
  gate.entered.acquire();
  push(*pipeline, 1);
  push(*pipeline, 2, {.deadline = Clock::now() + kLong});
  for (const auto late = Clock::now() + std::chrono::microseconds(2); Clock::now() < late;) {
  }
  gate.open.release();
  EXPECT_TRUE(pop(*pipeline).ok());
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

TEST(CancelTest, AFrameComesOutInItsPlaceAndIsNotComputed) {
  Gate gate;
  auto network = behind(gate);
  auto pipeline = start(network);
  EXPECT_FALSE(pipeline->cancel(0));
  gate.stops = 10;
  for (const float value : {10.0F, 11.0F, 12.0F}) push(*pipeline, value);
  gate.entered.acquire();
  EXPECT_TRUE(pipeline->cancel(1));
  EXPECT_FALSE(pipeline->cancel(1));
  EXPECT_FALSE(pipeline->cancel(3));
  gate.open.release();
  EXPECT_EQ(value_of(pop(*pipeline)[0]), 10);
  const Output cancelled = pop(*pipeline);
  EXPECT_EQ(cancelled.number(), 1U);
  EXPECT_EQ(cancelled.outcome(), Outcome::kCancelled);
  EXPECT_EQ(cancelled.error().message(), "frame 1: cancelled by its number");
  EXPECT_EQ(value_of(pop(*pipeline)[0]), 12);
  EXPECT_EQ(gate.calls, 3);  // The warm-up is one.
  for (const FrameNumber out : {0, 1, 2}) EXPECT_FALSE(pipeline->cancel(out));
  const auto stats = pipeline->stats();
  EXPECT_EQ(stats.cancelled, 1U);
  EXPECT_EQ(stats.stages[0].errors, 0U);
}

TEST(CancelTest, AFrameThatIsComputedOrWaitsToBePoppedIsCancelledToo) {
  Gate gate;
  auto network = behind(gate);
  auto pipeline = start(network);
  gate.stops = 10;
  push(*pipeline, 9);
  push(*pipeline, 10);
  gate.entered.acquire();
  EXPECT_TRUE(pipeline->cancel(0));
  EXPECT_TRUE(pipeline->cancel(1));
  gate.open.release();
  EXPECT_EQ(pop(*pipeline).outcome(), Outcome::kCancelled);
  EXPECT_EQ(pop(*pipeline).outcome(), Outcome::kCancelled);
}

TEST(CancelTest, AFrameThatFailedBeforeKeepsItsError) {
  FakeNetwork network;
  network.input("in")
      .stage("fails", {"in"}, {"out"},
             [](Inputs, Outputs) -> Status { return internal_error("odd"); })
      .output("out");
  auto pipeline = start(network);
  push(*pipeline, 1);
  ASSERT_TRUE(pipeline->drain());
  EXPECT_FALSE(pipeline->cancel(0));
  EXPECT_EQ(pop(*pipeline).outcome(), Outcome::kError);
}

// A stage that waits for room does not begin with what was cancelled meanwhile.
TEST(CancelTest, AFrameThatWaitsForRoomDoesNotStart) {
  Gate gate;
  std::atomic<int> calls{0};
  FakeNetwork network;
  network.input("in")
      .stage("a", {"in"}, {"mid"},
             [&](Inputs in, Outputs out) -> Status {
               ++calls;
               out[0]->as<float>()[0] = value_of(*in[0]);
               return {};
             })
      .stage("gate", {"mid"}, {"out"}, gate.function())
      .output("out");
  network.finish().edges[1].capacity = 1;
  auto pipeline = start(network);
  gate.stops = 10;
  push(*pipeline, 10);
  push(*pipeline, 11);
  gate.entered.acquire();
  EXPECT_TRUE(pipeline->cancel(1));
  gate.open.release();
  EXPECT_TRUE(pop(*pipeline).ok());
  EXPECT_EQ(pop(*pipeline).outcome(), Outcome::kCancelled);
  EXPECT_EQ(calls, 2);
}

// in + sum -> sum: what a state holds does not tell when a frame was cancelled.
TEST(CancelTest, AStateIsWrittenAllTheSame) {
  Gate gate;
  FakeNetwork network;
  network.input("in")
      .state_input("last")
      .stage("gate", {"in"}, {"x"}, gate.function())
      .stage("sum", {"x", "last"}, {"out"},
             [](Inputs in, Outputs out) -> Status {
               out[0]->as<float>()[0] = value_of(*in[0]) + value_of(*in[1]);
               return {};
             })
      .output("out")
      .state("out", "last");
  auto pipeline = start(network);
  gate.stops = 10;
  for (const float value : {10.0F, 5.0F, 1.0F}) push(*pipeline, value);
  gate.entered.acquire();
  EXPECT_TRUE(pipeline->cancel(0));
  EXPECT_TRUE(pipeline->cancel(1));
  gate.open.release();
  EXPECT_EQ(pop(*pipeline).outcome(), Outcome::kCancelled);
  EXPECT_EQ(pop(*pipeline).outcome(), Outcome::kCancelled);
  EXPECT_EQ(value_of(pop(*pipeline)[0]), 16);
}

TEST_F(OnDevice, CancellingAFrameEndsItsCallAndNoOther) {
  auto pipeline = start(network);
  device->hold(true);
  for (int i = 0; i < 4; ++i) push(*pipeline, static_cast<float>(i));
  device->wait_for(4);
  EXPECT_TRUE(pipeline->cancel(0));
  EXPECT_EQ(pop(*pipeline).outcome(), Outcome::kCancelled);
  EXPECT_EQ(device->in_flight(), 3);
  push(*pipeline, 4);  // On the lane that is free again.
  device->wait_for(4);
  device->hold(false);
  for (int i = 1; i < 5; ++i) EXPECT_EQ(value_of(pop(*pipeline)[0]), 2 * static_cast<float>(i));
}

// Whoever cancels at the last moment is too late or not: nothing else comes of it.
TEST_F(OnDevice, CancellingBesideTheEndOfCallsHitsNoOther) {
  auto pipeline = start(network, {.capacity = 8});
  constexpr FrameNumber kFrames = 3000;
  std::vector<std::uint8_t> cancelled(kFrames);
  std::atomic<FrameNumber> next{0};
  std::atomic<bool> begun{false};
  std::thread canceller([&] {
    for (FrameNumber frame = 0; frame < kFrames; frame += 3) {
      while (next <= frame) std::this_thread::yield();
      cancelled[frame] = pipeline->cancel(frame) ? 1 : 0;
      begun = true;
    }
  });
  std::vector<Outcome> outcomes;
  const auto take = [&] {
    const Output output = pop(*pipeline);
    outcomes.push_back(output.outcome());
    if (output.ok()) {
      EXPECT_EQ(value_of(output[0]), 2 * static_cast<float>(output.number()));
    }
  };
  for (FrameNumber frame = 0; frame < kFrames; ++frame) {
    next = push(*pipeline, static_cast<float>(frame)) + 1;
    while (frame == 7 && !begun) std::this_thread::yield();  // Frame 0 is there to be cancelled.
    if (frame >= 7) take();
  }
  while (outcomes.size() < kFrames) take();
  canceller.join();
  for (FrameNumber frame = 0; frame < kFrames; ++frame) {
    EXPECT_EQ(outcomes[frame], cancelled[frame] != 0 ? Outcome::kCancelled : Outcome::kOk) << frame;
  }
  EXPECT_GT(std::ranges::count(outcomes, Outcome::kCancelled), 0);
}

void wait_until_asleep(int thread) {
  for (std::string state; state != "S"; std::this_thread::yield()) {
    std::ifstream stat(concat("/proc/self/task/", thread, "/stat"));
    std::string number, name;
    stat >> number >> name >> state;
  }
}

/// Pushes one frame on a thread of its own; waits for it once it waits.
std::thread waiting_pusher(const std::function<void()>& push) {
  std::promise<int> id;
  auto known = id.get_future();
  std::thread thread([push, id = std::move(id)]() mutable {
    id.set_value(device::this_thread_id());
    push();
  });
  const int tid = known.get();
  // It may sleep before: in the future's mutex, or as it is put off. Then it is asleep again soon.
  for (int looks = 0; looks < 20; ++looks) wait_until_asleep(tid);
  return thread;
}

// The threads wait in the order of the list; then a turn comes.
std::vector<float> order_of(std::vector<std::pair<float, Priority>> pushes, bool acquires) {
  Gate gate;
  auto network = behind(gate);
  auto pipeline = start(network, {.capacity = 16});
  EXPECT_TRUE(pipeline->acquire_input(kLong));
  std::vector<std::thread> threads;
  for (const auto& [value, priority] : pushes) {
    threads.push_back(waiting_pusher([&pipeline, value, priority, acquires] {
      if (!acquires) {
        push(*pipeline, value, {.priority = priority});
        return;
      }
      const auto slots = pipeline->acquire_input(kLong, priority);
      ASSERT_TRUE(slots);
      (*slots)[0].as<float>()[0] = value;
      EXPECT_TRUE(pipeline->push_acquired());
    }));
  }
  pipeline->release_input();
  for (auto& thread : threads) thread.join();
  std::vector<float> order;
  for (std::size_t i = 0; i < pushes.size(); ++i) order.push_back(value_of(pop(*pipeline)[0]));
  return order;
}

TEST(PriorityTest, AHighOneGoesBeforeNormalOnesThatWait) {
  for (const bool acquires : {false, true}) {
    const auto order = order_of({{1, Priority::kNormal},
                                 {2, Priority::kNormal},
                                 {3, Priority::kHigh},
                                 {4, Priority::kHigh}},
                                acquires);
    EXPECT_THAT(std::span(order).first(2), UnorderedElementsAre(3, 4));
    EXPECT_THAT(std::span(order).last(2), UnorderedElementsAre(1, 2));
  }
}

// The second looks all the time, and is awake when the first has to be woken.
TEST(PriorityTest, WhoeverLooksOftenDoesNotGoBeforeThoseInLine) {
  for (int round = 0; round < 200; ++round) {
    Turn turn;
    ASSERT_TRUE(turn.begin(kNever, [] { return false; }));
    std::vector<int> order;
    std::array<std::atomic<int>, 2> looks{};
    const auto wait = [&](int name, std::int64_t next_look) {
      std::thread waiter([&, name, next_look] {
        const auto over = [&] { return ++looks[name] < 0; };
        EXPECT_TRUE(turn.begin(false, over, [=] { return next_look; }));
        order.push_back(name);
        turn.end();
      });
      while (looks[name] == 0) std::this_thread::yield();
      return waiter;
    };
    std::thread first = wait(0, kNever);
    std::thread second = wait(1, 0);
    turn.end();
    first.join();
    second.join();
    ASSERT_THAT(order, ElementsAre(0, 1));
  }
}

// Whoever goes away, those behind it still get their turn.
TEST(PriorityTest, AHighOneThatTimesOutLeavesTheTurnToTheOthers) {
  Gate gate;
  auto network = behind(gate);
  auto pipeline = start(network, {.capacity = 4});
  for (int round = 0; round < 200; ++round) {
    ASSERT_TRUE(pipeline->acquire_input(kLong));
    std::thread normal([&] { push(*pipeline, 1); });
    std::thread high([&] {
      static_cast<void>(pipeline->push(std::vector{number(2)}, std::chrono::microseconds(round),
                                       {.priority = Priority::kHigh}));
    });
    std::this_thread::yield();
    pipeline->release_input();
    normal.join();
    high.join();
    while (pipeline->stats().popped < pipeline->stats().pushed) pop(*pipeline);
  }
}

TEST(PriorityTest, ManyThreadsOfBothKindsPushEveryFrameOnce) {
  Gate gate;
  auto network = behind(gate);
  auto pipeline = start(network, {.capacity = 2});
  constexpr int kThreads = 4, kEach = 300;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&pipeline, t] {
      const auto priority = t % 2 == 0 ? Priority::kNormal : Priority::kHigh;
      for (int i = 0; i < kEach; ++i) push(*pipeline, 1, {.priority = priority});
    });
  }
  for (int i = 0; i < kThreads * kEach; ++i) EXPECT_TRUE(pop(*pipeline).ok());
  for (auto& thread : threads) thread.join();
}

/// What callbacks were given.
struct Received {
  std::function<void(Output)> done() {
    return [this](Output output) {
      {
        const std::scoped_lock lock(mutex);
        threads.insert(device::this_thread_id());
        numbers.push_back(output.number());
        outputs.push_back(std::move(output));
        changed.notify_all();  // With the lock: who waited may free this at once.
      }
    };
  }
  void wait_for(std::size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return numbers.size() >= count; });
  }
  void release() {
    const std::scoped_lock lock(mutex);
    outputs.clear();
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::set<int> threads;
  std::vector<FrameNumber> numbers;
  std::deque<Output> outputs;  // While they are held, they hold their slots.
};

// Two replicas: one is stopped at the frame of value 10, the other overtakes it.
struct CallbackTest : ::testing::Test {
  CallbackTest() {
    network.input("in").stage("gate", {"in"}, {"out"}, gate.function(), 2).output("out");
    network.finish().streams.most = 8;
    pipeline = start(network, {.capacity = 8});
    gate.stops = 10;
  }
  /// Until so many frames are computed. \pre  None of them was let go: callbacks hold the first.
  void wait_for_results(unsigned frames) {
    while (pipeline->stats().edges[1].depth < frames) std::this_thread::yield();
  }
  Gate gate;
  FakeNetwork network;
  Received received;
  std::unique_ptr<Pipeline> pipeline;
};

TEST_F(CallbackTest, AreCalledInOrder) {
  for (int i = 0; i < 4; ++i)
    push(*pipeline, static_cast<float>(10 + i), {.done = received.done()});
  gate.entered.acquire();
  while (pipeline->stats().stages[0].frames < 3) std::this_thread::yield();
  push(*pipeline, 20, {.stream = 1, .done = received.done(), .in_order = false});
  received.wait_for(1);  // That one only.
  gate.open.release();
  received.wait_for(5);
  EXPECT_THAT(received.numbers, ElementsAre(4, 0, 1, 2, 3));
  for (const auto& output : received.outputs) {
    const auto expected = output.number() == 4 ? 20.0F : 10 + static_cast<float>(output.number());
    EXPECT_EQ(value_of(output[0]), expected);
  }
}

TEST_F(CallbackTest, AreCalledAsFramesEndWhereNoOrderIsAskedFor) {
  for (unsigned i = 0; i < 4; ++i) {
    push(*pipeline, static_cast<float>(10 + i),
         {.stream = i, .done = received.done(), .in_order = false});
  }
  gate.entered.acquire();
  received.wait_for(3);
  EXPECT_THAT(received.numbers, ElementsAre(1, 2, 3));
  gate.open.release();
  received.wait_for(4);
  EXPECT_EQ(received.numbers.back(), 0U);
  EXPECT_EQ(received.threads.size(), 1U);
  EXPECT_NE(*received.threads.begin(), device::this_thread_id());
  EXPECT_EQ(pipeline->stats().popped, 4U);
}

TEST_F(CallbackTest, AreCalledInOrderWithinAStreamAlways) {
  const auto push_to = [&](std::uint64_t stream, float value, bool in_order) {
    push(*pipeline, value, {.stream = stream, .done = received.done(), .in_order = in_order});
  };
  push_to(1, 10, false);
  gate.entered.acquire();
  push_to(1, 11, false);
  push_to(1, 12, true);
  push_to(0, 13, true);
  push_to(1, 14, false);
  while (pipeline->stats().stages[0].frames < 4) std::this_thread::yield();
  push_to(2, 15, false);
  received.wait_for(1);  // All frames but the first are done, and no other may be called.
  gate.open.release();
  received.wait_for(6);
  EXPECT_EQ(received.numbers.front(), 5U);
  std::erase(received.numbers, 3U);
  EXPECT_THAT(received.numbers, ElementsAre(5, 0, 1, 2, 4));
}

// The thread for callbacks may still be at the one before: then it calls the next one, too.
TEST_F(CallbackTest, ABriefOneIsCalledByTheStageThatHasNothingElseToDo) {
  std::size_t pushed = 0;
  while (pushed < 10'000 && received.threads.size() < 2) {
    const bool brief = pushed > 0;
    push(*pipeline, 1, {.done = received.done(), .brief = brief});
    received.wait_for(++pushed);
    received.release();
  }
  EXPECT_EQ(received.threads.size(), 2U);
  EXPECT_FALSE(received.threads.contains(device::this_thread_id()));
}

TEST_F(CallbackTest, ABriefOneWaitsForThoseOfItsStreamBeforeIt) {
  const auto push_to = [&](float value) {
    push(*pipeline, value,
         {.stream = 1, .done = received.done(), .in_order = false, .brief = true});
  };
  push_to(10);
  gate.entered.acquire();
  push_to(11);
  while (pipeline->stats().stages[0].frames < 1) std::this_thread::yield();
  push(*pipeline, 12, {.done = received.done(), .in_order = false, .brief = true});
  received.wait_for(1);
  EXPECT_THAT(received.numbers, ElementsAre(2));
  gate.open.release();
  received.wait_for(3);
  EXPECT_THAT(received.numbers, ElementsAre(2, 0, 1));
}

TEST_F(CallbackTest, PassOverPopAndHaveTheNumbersOfThePushes) {
  for (FrameNumber i = 0; i < 100; ++i) {
    push(*pipeline, 0, i % 3 == 2 ? FrameOptions{} : FrameOptions{.done = received.done()});
    if (i % 3 != 2) continue;
    EXPECT_EQ(pop(*pipeline).number(), i);
    received.wait_for((i + 1) / 3 * 2);
    received.release();
  }
  pipeline->close();
  EXPECT_FALSE(*pipeline->pop(kLong));  // The last one has a callback.
}

// More frames than there are records, before anybody pops.
TEST_F(CallbackTest, APopFindsItsFrameBehindAnyNumberOfThem) {
  std::atomic<int> called{0};
  for (int i = 0; i < 1000; ++i) {
    push(*pipeline, 0, {.done = [&](const Output& output) { called += output.ok() ? 1 : 0; }});
  }
  push(*pipeline, 7);
  const Output output = pop(*pipeline);
  EXPECT_EQ(output.number(), 1000U);
  EXPECT_EQ(value_of(output[0]), 7);
  pipeline.reset();
  EXPECT_EQ(called, 1000);
}

TEST_F(CallbackTest, AThreadThatTheSystemRefusesIsAnErrorOfThePush) {
  {
    const NoMoreThreads none;
    const auto refused = pipeline->push(std::vector{number(1)}, kLong, {.done = received.done()});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
    ASSERT_TRUE(pipeline->acquire_input(kLong));
    const auto refused_too = pipeline->push_acquired({.done = received.done()});
    ASSERT_FALSE(refused_too);
    EXPECT_EQ(refused_too.error().code, Code::kResourceExhausted);
  }
  EXPECT_EQ(pipeline->stats().pushed, 0U);
  ASSERT_TRUE(pipeline->acquire_input(kLong));
  ASSERT_TRUE(pipeline->push_acquired({.done = received.done()}));
  received.wait_for(1);
}

TEST_F(CallbackTest, ThatThrowDoNotEndTheProcess) {
  push(*pipeline, 1, {.done = [](const Output&) { throw std::runtime_error("a user's"); }});
  push(*pipeline, 1, {.done = [](const Output&) { throw 7; }});
  push(*pipeline, 1, {.done = received.done()});
  received.wait_for(1);
  EXPECT_EQ(received.numbers.front(), 2U);
}

TEST_F(CallbackTest, AreGivenFramesThatFailedToo) {
  push(*pipeline, 10, {.done = received.done()});
  push(*pipeline, 11, {.done = received.done()});
  push(*pipeline, 12, {.deadline = Clock::now() - milliseconds(1), .done = received.done()});
  gate.entered.acquire();
  EXPECT_TRUE(pipeline->cancel(0));
  gate.open.release();
  received.wait_for(3);
  EXPECT_EQ(received.outputs[0].outcome(), Outcome::kCancelled);
  EXPECT_TRUE(received.outputs[1].ok());
  EXPECT_EQ(received.outputs[2].error().code, Code::kDeadlineExceeded);
  EXPECT_FALSE(pipeline->cancel(0));
}

// A callback that has begun and one that has not: both have returned once it is drained.
TEST_F(CallbackTest, HaveReturnedOnceThePipelineIsDrained) {
  gate.stops = -1;
  std::binary_semaphore entered{0}, open{0};
  std::atomic<int> returned = 0;
  push(*pipeline, 1, {.done = [&](const Output&) {
    entered.release();
    open.acquire();
    ++returned;
  }});
  push(*pipeline, 2, {.done = [&](const Output&) { ++returned; }});
  entered.acquire();
  wait_for_results(2);
  const Status late = pipeline->drain(milliseconds(50));
  EXPECT_THAT(late ? "" : late.error().message(), HasSubstr("2 callbacks have not returned"));
  auto drained = std::async(std::launch::async, [&] {
    EXPECT_TRUE(pipeline->drain(kLong));
    return returned.load();
  });
  open.release();
  EXPECT_EQ(drained.get(), 2);
  EXPECT_TRUE(pipeline->run(std::vector{number(3)}));
  EXPECT_TRUE(pipeline->reset_states());
}

TEST_F(CallbackTest, MayDrainThePipelineThemselves) {
  gate.stops = -1;
  std::promise<Status> drained;
  push(*pipeline, 1, {.done = [&](const Output&) { drained.set_value(pipeline->drain(kLong)); }});
  EXPECT_TRUE(drained.get_future().get());
}

TEST_F(CallbackTest, AreCalledBeforeThePipelineEnds) {
  for (int i = 0; i < 4; ++i) {
    push(*pipeline, static_cast<float>(10 + i), {.done = received.done(), .in_order = i % 2 == 0});
  }
  gate.entered.acquire();
  std::thread opens([&] {
    while (!pipeline->closed_by()) std::this_thread::yield();
    gate.open.release();
  });
  pipeline->cancel();
  opens.join();
  pipeline.reset();
  EXPECT_THAT(received.numbers, ElementsAre(0, 1, 2, 3));
}

TEST_F(CallbackTest, OneThatBlocksIsLeftBehindWithThoseAfterIt) {
  static std::binary_semaphore entered{0}, open{0};  // They outlive the pipeline.
  push(*pipeline, 0, {.done = [&](const Output&) {
    entered.release();
    open.acquire();
  }});
  entered.acquire();
  push(*pipeline, 1, {.done = received.done()});
  wait_for_results(2);
  EXPECT_FALSE(pipeline->end(milliseconds(1)));
  const auto left = pipeline->leave_behind();
  EXPECT_THAT(left.calls, IsEmpty());
  EXPECT_THAT(left.callbacks, ElementsAre(HasSubstr("the callback of frame 0 goes on")));
  EXPECT_THAT(pipeline->leave_behind().callbacks, IsEmpty());
  EXPECT_TRUE(pipeline->end(kForever));
  pipeline.reset();
  EXPECT_THAT(received.numbers, IsEmpty());
  open.release();
  received.wait_for(1);
  received.release();
  while (network.backend->alive() > 0) std::this_thread::yield();
}

TEST_F(CallbackTest, ThatBlockInAPlanThatWasReplacedAreLeftBehindToo) {
  static std::binary_semaphore entered{0}, open{0};
  push(*pipeline, 0, {.done = [&](const Output&) {
    entered.release();
    open.acquire();
  }});
  entered.acquire();
  ASSERT_TRUE(pipeline->replace(network.plan, "", network.registry));
  push(*pipeline, 1, {});
  EXPECT_TRUE(pop(*pipeline).ok());  // Nothing of the old plan is to be popped any more.
  EXPECT_FALSE(pipeline->end(milliseconds(1)));
  EXPECT_THAT(pipeline->leave_behind().callbacks, ElementsAre(HasSubstr("frame 0")));
  pipeline.reset();
  open.release();
  while (network.backend->alive() > 0) std::this_thread::yield();
}

// The thread for callbacks is at none: nothing may be left, nor said to be.
TEST_F(CallbackTest, ABriefOneOnAStagesThreadIsNotLeftBehind) {
  std::binary_semaphore entered{0}, open{0};
  push(*pipeline, 0,
       {.done =
            [&](const Output&) {
              entered.release();
              open.acquire();
            },
        .brief = true});
  entered.acquire();
  push(*pipeline, 1, {.done = received.done()});
  wait_for_results(2);
  EXPECT_FALSE(pipeline->end(milliseconds(1)));
  EXPECT_THAT(pipeline->leave_behind().callbacks, IsEmpty());
  open.release();
  EXPECT_TRUE(pipeline->end(kForever));
  EXPECT_THAT(received.numbers, ElementsAre(1));
}

TEST_F(CallbackTest, OfAPlanThatWasReplacedHaveReturnedOnceThePipelineIsDrained) {
  std::binary_semaphore entered{0}, open{0};
  push(*pipeline, 0, {.done = [&](const Output&) {
    entered.release();
    open.acquire();
  }});
  entered.acquire();
  ASSERT_TRUE(pipeline->replace(network.plan, "", network.registry));
  push(*pipeline, 1, {});
  EXPECT_TRUE(pop(*pipeline).ok());  // Nothing of the old plan is to be popped any more.
  const Status late = pipeline->drain(milliseconds(50));
  EXPECT_THAT(late ? "" : late.error().message(), HasSubstr("1 callback has not returned"));
  open.release();
  EXPECT_TRUE(pipeline->drain(kLong));
}

TEST_F(CallbackTest, OneMayAskForTheEndAndIsNotWaitedFor) {
  std::promise<bool> ended;
  push(*pipeline, 0, {.done = [&](const Output&) { ended.set_value(pipeline->end(kForever)); }});
  EXPECT_TRUE(ended.get_future().get());
}

// Nothing passes these on: the device holds them, and the stages leave at once.
TEST_F(OnDevice, CallbacksOfFramesInFlightAreCalledWhenThePipelineEnds) {
  for (int round = 0; round < 50; ++round) {
    Received received;
    auto pipeline = start(network, {.capacity = 8});
    for (int i = 0; i < 3; ++i) {  // So that the numbers do not begin with the first record.
      push(*pipeline, 1);
      pop(*pipeline);
    }
    device->hold(true);
    for (int i = 0; i < 8; ++i) {
      push(*pipeline, 1, {.done = received.done(), .in_order = i % 3 != 0});
    }
    pipeline.reset();
    EXPECT_THAT(received.numbers, ElementsAre(3, 4, 5, 6, 7, 8, 9, 10));
    for (const auto& output : received.outputs) EXPECT_EQ(output.outcome(), Outcome::kCancelled);
    device->hold(false);
  }
}

TEST(CallbacksTest, OfManyThreadsAreCalledOnceEach) {
  Gate gate;
  FakeNetwork network;
  network.input("in")
      .stage("a", {"in"}, {"x"}, gate.function(), 3)
      .stage("b", {"x"}, {"y"}, unary([](float x) { return x; }), 2)
      .stage("c", {"y", "in"}, {"out"}, unary([](float x) { return 2 * x; }))
      .output("out");
  auto pipeline = start(network, {.capacity = 4});
  constexpr int kThreads = 4, kEach = 500;
  std::array<std::atomic<int>, kThreads * kEach> called{};
  std::atomic<std::int64_t> last{-1};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const int at = t * kEach + i;
        FrameOptions options;
        if (t > 0) {
          options.done = [&, at, t](const Output& output) {
            ++called[static_cast<std::size_t>(at)];
            EXPECT_EQ(value_of(output[0]), 2 * static_cast<float>(at));
            if (t == 1) {
              EXPECT_GT(static_cast<std::int64_t>(output.number()), last.load());
            }
            if (t == 1) last = static_cast<std::int64_t>(output.number());
          };
        }
        options.in_order = t == 1;
        options.brief = i % 2 == 0;
        push(*pipeline, static_cast<float>(at), options);
      }
    });
  }
  for (int i = 0; i < kEach; ++i) {
    const Output output = pop(*pipeline);
    ++called[static_cast<std::size_t>(value_of(output[0]) / 2)];
  }
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(pipeline->drain());
  pipeline.reset();
  for (const auto& count : called) EXPECT_EQ(count, 1);
}

// in -> out: 2 x, and the input itself.
struct HeldTest : ::testing::TestWithParam<int> {
  HeldTest() {
    network.input("in")
        .stage("a", {"in"}, {"out"}, unary([](float x) { return 2 * x; }))
        .output("out")
        .output("in");
  }
  static void expect(const Output& output, float value) {
    EXPECT_EQ(value_of(output[0]), 2 * value);
    EXPECT_EQ(value_of(output[1]), value);
  }
  FakeNetwork network;
};
INSTANTIATE_TEST_SUITE_P(Capacities, HeldTest, ::testing::Values(1, 2, 3, 8));

TEST_P(HeldTest, OneResultStopsNobody) {
  auto pipeline = start(network, {.capacity = GetParam()});
  push(*pipeline, 7);
  const Output held = pop(*pipeline);
  const Tensor& kept = held[0];
  const void* data = kept.data();
  for (int i = 0; i < 100; ++i) {
    push(*pipeline, static_cast<float>(i));
    expect(pop(*pipeline), static_cast<float>(i));
  }
  expect(held, 7);
  EXPECT_EQ(&kept, &held[0]);  // Who refers to it finds it where it was.
  EXPECT_EQ(kept.data(), data);
  EXPECT_EQ(pipeline->stats().stages[0].allocations, 1U);
}

// Nothing is popped any more: nothing but the push itself can ask for the slot.
TEST_P(HeldTest, OneResultStopsNoCallbacksOfPushesThatDoNotWait) {
  auto pipeline = start(network, {.capacity = GetParam()});
  push(*pipeline, 7);
  const Output held = pop(*pipeline);
  for (int i = 0; i < 100; ++i) {
    std::promise<float> came;
    const FrameOptions options{
        .done = [&](const Output& output) { came.set_value(value_of(output[0])); }};
    auto pushed = pipeline->try_push(std::vector{number(static_cast<float>(i))}, options);
    for (const auto end = Clock::now() + kLong; !pushed && Clock::now() < end;)
      pushed = pipeline->try_push(std::vector{number(static_cast<float>(i))}, options);
    ASSERT_TRUE(pushed) << pushed.error().message();
    EXPECT_EQ(came.get_future().get(), 2 * static_cast<float>(i));
  }
  expect(held, 7);
}

TEST_P(HeldTest, AsManyAsTheBoundAndNoMore) {
  auto pipeline = start(network, {.capacity = GetParam()}, {.max_held = 3});
  std::vector<Output> held;
  for (int i = 0; i < GetParam() + 3; ++i) {
    push(*pipeline, static_cast<float>(i));
    held.push_back(pop(*pipeline));
  }
  const auto refusal = [&] {
    const auto pushed = pipeline->try_push(std::vector{number(1)});
    return pushed ? "none" : pushed.error().message();
  };
  const auto all_held = concat("at most ", counted(GetParam(), "frame"),
                               " may be in flight; all came out and are held: let go of one, or ");
  EXPECT_THAT(refusal(), HasSubstr(all_held + "allow more (max_held)"));
  set_language(Language::kPython);
  EXPECT_THAT(refusal(), HasSubstr(all_held + "take() it"));
  set_language(Language::kProgram);
  for (std::size_t i = 0; i < held.size(); ++i) expect(held[i], static_cast<float>(i));
  held.erase(held.begin() + 1);  // One that kept its slot: another may, and its own is free.
  push(*pipeline, 50);
  expect(pop(*pipeline), 50);
  EXPECT_EQ(pipeline->stats().stages[0].allocations, 3U);
}

TEST_P(HeldTest, NobodyIsLetWaitForOneThatIsPoppedLater) {
  auto pipeline = start(network, {.capacity = GetParam()});
  for (int i = 0; i < GetParam(); ++i) push(*pipeline, static_cast<float>(i));
  auto pusher = waiting_pusher([&] { push(*pipeline, 99); });
  const Output held = pop(*pipeline);
  for (int i = 1; i < GetParam(); ++i) expect(pop(*pipeline), static_cast<float>(i));
  pusher.join();
  expect(pop(*pipeline), 99);
  expect(held, 0);
}

TEST_P(HeldTest, OneThatIsPoppedLaterStopsNoPushThatWaitsAlready) {
  auto pipeline = start(network, {.capacity = GetParam()});
  for (int i = 0; i < GetParam(); ++i) push(*pipeline, static_cast<float>(i));
  auto pusher = waiting_pusher([&] { push(*pipeline, 99); });
  const Output held = pop(*pipeline);
  pusher.join();
  for (int i = 1; i < GetParam(); ++i) expect(pop(*pipeline), static_cast<float>(i));
  expect(pop(*pipeline), 99);
  expect(held, 0);
}

TEST_P(HeldTest, AnOutputIsTakenFromASlotThatWasReplacedToo) {
  auto pipeline = start(network, {.capacity = GetParam()});
  push(*pipeline, 7);
  std::optional<Output> held = pop(*pipeline);
  for (int i = 0; i < 10; ++i) {
    push(*pipeline, static_cast<float>(i));
    pop(*pipeline);
  }
  const Tensor taken = held->take(0);
  held.reset();
  for (int i = 0; i < 20; ++i) {  // With the slot that came back.
    push(*pipeline, static_cast<float>(i));
    const Output next = pop(*pipeline);
    push(*pipeline, static_cast<float>(i));
    expect(next, static_cast<float>(i));
    expect(pop(*pipeline), static_cast<float>(i));
  }
  EXPECT_EQ(value_of(taken), 14);
  EXPECT_EQ(pipeline->stats().stages[0].allocations, 1U);
}

TEST_P(HeldTest, BesideEdgesThatDrop) {
  network.finish().edges[0].policy = plan::FullPolicy::kDropOldest;
  for (auto& edge : network.plan.edges) edge.capacity = GetParam();
  auto pipeline = start(network);
  push(*pipeline, 7);
  const Output held = pop(*pipeline);
  for (int i = 0; i < 50; ++i) {
    push(*pipeline, static_cast<float>(i));
    const Output next = pop(*pipeline);
    ASSERT_TRUE(next.ok()) << next.error().message();
    expect(next, static_cast<float>(i));
  }
  expect(held, 7);
}

TEST_P(HeldTest, ThoseThatFailedTakeNoRoom) {
  auto pipeline = start(network, {.capacity = GetParam()}, {.max_held = 0});
  std::vector<Output> held;
  for (int i = 0; i < 20; ++i) {
    push(*pipeline, 1, {.deadline = Clock::now() - milliseconds(1)});
    held.push_back(pop(*pipeline));
    EXPECT_EQ(held.back().size(), 0U);
  }
  push(*pipeline, 3);
  expect(pop(*pipeline), 3);
}

TEST_P(HeldTest, TheMemoryOfTheirSlotsIsKnownBefore) {
  network.finish();
  const auto bytes = [&](int held) {
    return *memory_ceiling(network.with({.capacity = GetParam()}), {.max_held = held});
  };
  EXPECT_EQ(bytes(2), bytes(0) + 2 * 2 * sizeof(float));  // Both outputs are on edges to it.
  auto pipeline = start(network, {.capacity = GetParam()}, {.max_held = 2});
  std::uint64_t sum = 0;
  for (const auto& edge : pipeline->stats().edges) sum += edge.bytes;
  EXPECT_EQ(sum, bytes(2));
}

// Readers, pushers and poppers at once, each result held for a while.
TEST_P(HeldTest, WhatIsReadMeanwhileStaysWhole) {
  auto pipeline = start(network, {.capacity = GetParam()}, {.max_held = 2});
  constexpr int kFrames = 2000;
  std::thread pusher([&] {
    for (int i = 0; i < kFrames; ++i) push(*pipeline, static_cast<float>(i));
  });
  std::vector<std::thread> poppers;
  for (int t = 0; t < 2; ++t) {
    poppers.emplace_back([&] {
      std::optional<Output> held;
      for (;;) {
        auto popped = pipeline->pop(kLong);
        ASSERT_TRUE(popped);
        if (!*popped) return;
        for (int look = 0; look < 3; ++look) {
          expect(**popped, static_cast<float>((*popped)->number()));
          if (held) expect(*held, static_cast<float>(held->number()));
        }
        if ((*popped)->number() % 5 == 0) held.emplace(**std::move(popped));
      }
    });
  }
  pusher.join();
  pipeline->close();
  for (auto& popper : poppers) popper.join();
}

}  // namespace
}  // namespace penstock::pipeline::each_frame_test
