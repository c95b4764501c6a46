// Calls that hang on a stage's own thread, and are left behind while the pipeline goes on.
#include <atomic>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "penstock/base/words.h"
#include "penstock/device/affinity.h"
#include "penstock/pipeline/pipeline.h"
#include "tests/support/fake_backend.h"
#include "tests/support/no_more_threads.h"

namespace penstock::pipeline::left_behind_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

using std::chrono::milliseconds;
constexpr std::chrono::nanoseconds kLong = std::chrono::seconds(60);

std::ptrdiff_t threads() {
  namespace fs = std::filesystem;
  return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator());
}

// Before anything is started. The thread sanitizer starts a thread of its own with the first one,
// which stays; one that was joined is listed for a moment more.
std::ptrdiff_t threads_at_first() {
  ::pid_t first = 0;
  std::thread([&] { first = ::gettid(); }).join();
  while (std::filesystem::exists(concat("/proc/self/task/", first))) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  return threads();
}

// Frames whose value is among `hang_on` wait until the door opens, then look once more at what they
// read, and write -1.
struct LeftBehind : ::testing::Test {
  ~LeftBehind() override {
    open_door();
    pipeline.reset();
    wait_until([&] { return threads() == before && network.backend->alive() == 0; });
  }

  // in -> a (as it is) -> far (2 x) -> b (as it is) -> out
  void chain(int replicas = 1) {
    network.input("in").stage("a", {"in"}, {"x"}, same());
    network.stage("far", {"x"}, {"y"}, twice(), replicas);
    network.stage("b", {"y"}, {"out"}, same()).output("out");
    bound(1);
  }
  void bound(int calls) {
    for (auto& stage : network.plan.stages) {
      if (stage.name != "far") continue;
      stage.max_run =
          milliseconds(1000);  // What hangs not keeps to it, however late its thread is.
      stage.max_left_behind = calls;
    }
  }
  Function same() {
    return unary([](float x) { return x; });
  }
  Function twice() {
    return [this](Inputs in, Outputs out) -> Status {
      const bool hung = waits(value_of(*in[0]));
      if (hung) note(value_of(*in[0]));
      out[0]->as<float>()[0] = hung ? -1 : 2 * value_of(*in[0]);
      return {};
    };
  }
  bool waits(float value) {
    {
      const std::scoped_lock lock(mutex);
      if (!hang_on.contains(value)) return false;
    }
    open.wait(false);
    return true;
  }
  void note(float value) {
    const std::scoped_lock lock(mutex);
    late.push_back(value);
  }
  std::vector<float> read_late() {
    const std::scoped_lock lock(mutex);
    return late;
  }
  void open_door() {
    open = true;
    open.notify_all();
  }
  /// Those that hang come back, and their threads are gone.
  void let_come_back(std::ptrdiff_t running) {
    open_door();
    wait_until([&] { return threads() == running; });
    open = false;
  }
  void hang(float value) {
    const std::scoped_lock lock(mutex);
    hang_on.insert(value);
  }
  template <typename Condition>
  static void wait_until(Condition condition) {
    while (!condition()) std::this_thread::sleep_for(milliseconds(1));
  }

  void start(const plan::StreamOptions& stream = {.capacity = 2}, const Options& options = {}) {
    auto started = network.start(stream, options);
    ASSERT_TRUE(started) << started.error().message();
    pipeline = *std::move(started);
  }
  void push() {
    ASSERT_TRUE(pipeline->push(std::vector{number(static_cast<float>(pushed++))}, kLong));
  }
  Output pop() {
    auto came = pipeline->pop(kLong);
    EXPECT_TRUE(came && *came);
    EXPECT_EQ((*came)->number(), static_cast<FrameNumber>(popped++));
    return **std::move(came);
  }
  /// As many frames; those that `expect` says nothing of hang.
  template <typename Expect>
  void run(int frames, Expect expect) {
    for (int i = 0; i < frames; ++i) {
      push();
      const Output output = pop();
      const auto value = expect(static_cast<float>(output.number()));
      ASSERT_EQ(output.ok(), value.has_value()) << output.number();
      if (output.ok()) {
        ASSERT_EQ(value_of(output[0]), *value) << output.number();
      } else {
        EXPECT_EQ(output.outcome(), Outcome::kError);
        EXPECT_THAT(output.error().message(),
                    HasSubstr(concat("stage 'far': frame ", output.number(), ": the call hangs")));
      }
    }
  }
  static void expect_unavailable(const Output& output, int hang, int most) {
    ASSERT_EQ(output.outcome(), Outcome::kError);
    EXPECT_EQ(output.error().code, Code::kUnavailable);
    EXPECT_EQ(output.error().message(),
              concat("stage 'far': frame ", output.number(),
                     ": unavailable: ", counted(hang, "hanging call"), ", at most ", most,
                     " may be left behind (max_left_behind)"));
  }
  static auto doubled_but(float hanging) {
    return [=](float x) { return x == hanging ? std::nullopt : std::optional(2 * x); };
  }

  const std::ptrdiff_t before = threads_at_first();
  std::atomic<bool> open{false};
  std::mutex mutex;  // Guards the two below.
  std::set<float> hang_on;
  std::vector<float> late;  // What those that came back read then.
  FakeNetwork network;
  std::unique_ptr<Pipeline> pipeline;
  int pushed = 0, popped = 0;
};

TEST_F(LeftBehind, ACallThatHangsCostsItsFrameOnly) {
  chain();
  start();
  const auto running = threads();
  hang(3);
  run(20, doubled_but(3));
  EXPECT_FALSE(pipeline->closed_by());
  EXPECT_EQ(threads(), running + 1);
  // It is back, wrote where nobody reads and read what nobody has written since.
  let_come_back(running);
  EXPECT_THAT(read_late(), ElementsAre(3));
  run(20, doubled_but(-1));
  // And made room for the next one.
  hang(45);
  run(20, doubled_but(45));
  EXPECT_FALSE(pipeline->closed_by());
}

TEST_F(LeftBehind, AFunctionsToo) {
  network.input("in").function(
      "far",
      function::stateless("far", {{"x", scalar()}}, {{"y", scalar()}},
                          [call = twice()](Inputs in, Outputs to) { return call(in, to); }),
      {"in"}, {"out"});
  network.output("out");
  bound(1);
  start();
  const auto running = threads();
  hang(0);  // A function is not warmed up.
  run(20, doubled_but(0));
  let_come_back(running);
  EXPECT_THAT(read_late(), ElementsAre(0));
  run(20, doubled_but(-1));
  EXPECT_FALSE(pipeline->closed_by());
}

TEST_F(LeftBehind, WhatTheCallerBorrowedIsTheirsToRead) {
  network.input("in").stage("far", {"in"}, {"out"}, twice()).output("out");
  bound(1);
  start();
  const auto running = threads();
  hang(3);
  for (int frame = 0; frame < 20; ++frame) {
    const auto slots = pipeline->acquire_input(kLong);
    ASSERT_TRUE(slots);
    (*slots)[0].as<float>()[0] = static_cast<float>(frame);
    ASSERT_TRUE(pipeline->push_acquired());
    const Output output = pop();
    ASSERT_EQ(output.ok(), frame != 3);
    if (output.ok()) {
      EXPECT_EQ(value_of(output[0]), 2 * static_cast<float>(frame));
    }
  }
  let_come_back(running);
  EXPECT_THAT(read_late(), ElementsAre(3));
}

TEST_F(LeftBehind, PastThoseThatThePlanAllowsTheStagesFramesAreUnavailable) {
  chain();
  bound(2);
  start({.capacity = 8});
  const auto running = threads();
  for (const float value : {1.F, 3.F, 5.F}) hang(value);
  for (int i = 0; i < 8; ++i) push();
  for (int i = 0; i < 8; ++i) {
    const Output output = pop();
    const int frame = static_cast<int>(output.number());
    EXPECT_EQ(output.ok(), frame == 0 || frame == 2 || frame == 4) << frame;
    if (output.ok()) continue;
    if (frame > 5) {
      expect_unavailable(output, 3, 2);
    } else {
      EXPECT_THAT(output.error().message(),
                  HasSubstr(concat("stage 'far': frame ", frame, ": the call hangs")));
    }
  }
  EXPECT_FALSE(pipeline->closed_by());
  EXPECT_EQ(pipeline->stats().stages[1].errors, 5U);
  // Until one of them is back.
  let_come_back(running);
  run(20, doubled_but(-1));
  EXPECT_EQ(pipeline->stats().stages[1].errors, 5U);
}

TEST_F(LeftBehind, AReplicaThatIsUnavailableLeavesItsFramesToTheOthers) {
  chain(2);
  start({.capacity = 8});
  const auto running = threads();
  // One replica has two of them then, the other one.
  for (const float value : {1.F, 2.F, 3.F}) hang(value);
  run(24, [](float x) { return x > 0 && x < 4 ? std::nullopt : std::optional(2 * x); });
  // Now none is able.
  hang(24);
  run(1, doubled_but(24));
  for (int i = 0; i < 8; ++i) {
    push();
    expect_unavailable(pop(), 2, 1);
  }
  let_come_back(running);
  run(20, doubled_but(-1));
  EXPECT_FALSE(pipeline->closed_by());
}

TEST_F(LeftBehind, WhereNoneMayBeThePipelineEnds) {
  chain();
  bound(0);
  start({.capacity = 8});
  hang(2);
  for (int i = 0; i < 8; ++i) push();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(pop().ok(), i < 2);
  ASSERT_TRUE(pipeline->closed_by());
  EXPECT_THAT(pipeline->closed_by()->message(), HasSubstr("stage 'far': frame 2: the call hangs"));
  EXPECT_FALSE(*pipeline->pop(kLong));
}

TEST_F(LeftBehind, ReplicasToo) {
  chain(2);
  bound(2);  // One of them may meet both.
  start({.capacity = 8});
  for (const float value : {1.F, 2.F}) hang(value);
  for (int i = 0; i < 40; ++i) {
    push();
    if (i < 4) continue;
    const Output output = pop();
    EXPECT_EQ(output.ok(), output.number() != 1 && output.number() != 2);
    if (output.ok()) {
      EXPECT_EQ(value_of(output[0]), 2 * static_cast<float>(output.number()));
    }
  }
  EXPECT_FALSE(pipeline->closed_by());
}

TEST_F(LeftBehind, TheNewThreadRunsWhereTheOldOneDid) {
  std::vector<int> cpus;
  network.input("in").stage("far", {"in"}, {"out"}, [&](Inputs in, Outputs to) -> Status {
    if (waits(value_of(*in[0]))) return {};
    cpus = device::cpus_of_thread(device::this_thread_id());
    to[0]->as<float>()[0] = 2 * value_of(*in[0]);
    return {};
  });
  network.output("out");
  bound(1);
  start();
  hang(1);
  run(2, doubled_but(1));
  cpus.clear();
  run(1, doubled_but(1));
  EXPECT_EQ(cpus, network.plan.stages[0].devices[0].cpus);
}

TEST_F(LeftBehind, WithoutAThreadForItsStageThePipelineEnds) {
  chain();
  start({.capacity = 8});
  hang(1);
  {
    const NoMoreThreads refused;
    for (int i = 0; i < 4; ++i) push();
    for (int i = 0; i < 4; ++i) EXPECT_EQ(pop().ok(), i == 0);
  }
  ASSERT_TRUE(pipeline->closed_by());
  EXPECT_THAT(pipeline->closed_by()->message(), HasSubstr("stage 'far': frame 1: the call hangs"));
}

TEST_F(LeftBehind, ItsErrorStopsAPipelineThatStopsAtErrors) {
  chain();
  start({.capacity = 8, .on_error = plan::OnError::kStop});
  hang(0.5F);
  ASSERT_TRUE(pipeline->push(std::vector{number(0.5F)}, kLong));
  EXPECT_THAT(pop().error().message(), HasSubstr("stage 'far': frame 0: the call hangs"));
  ASSERT_TRUE(pipeline->closed_by());
}

// out = in + s, s' = out
TEST_F(LeftBehind, ItsStateStaysThatOfTheFrameBefore) {
  network.input("in").state_input("s");
  network.stage("far", {"in", "s"}, {"out"}, [this](Inputs in, Outputs to) -> Status {
    const bool hung = waits(value_of(*in[0]));
    if (hung) note(value_of(*in[1]));
    to[0]->as<float>()[0] = hung ? 1000 : value_of(*in[0]) + value_of(*in[1]);
    return {};
  });
  network.output("out").state("out", "s");
  bound(1);
  start();
  const auto running = threads();
  hang(4);
  float sum = 0;
  const auto expect = [&](float x) {
    if (x == 4) return std::optional<float>();
    return std::optional(sum += x);
  };
  run(10, expect);
  let_come_back(running);
  EXPECT_THAT(read_late(), ElementsAre(6));  // 0 + 1 + 2 + 3
  run(10, expect);
  EXPECT_FALSE(pipeline->closed_by());
}

TEST_F(LeftBehind, SeveralFramesInOneCallFailTogether) {
  chain();
  network.together("far", {2, 4}, [&](Inputs in) -> Status {
    if (in[0]->bytes() == 4 * sizeof(float) && waits(in[0]->as<float>()[0])) {
      for (const float value : in[0]->as<float>()) note(value);
      return internal_error("late");
    }
    return {};
  });
  network.plan.stages[1].batch.wait = std::chrono::seconds(600);
  start({.capacity = 8});
  const auto running = threads();
  hang(4);
  for (int round = 0; round < 6; ++round) {
    for (int i = 0; i < 4; ++i) push();
    for (int i = 0; i < 4; ++i) {
      const Output output = pop();
      ASSERT_EQ(output.ok(), round != 1);
      if (output.ok()) {
        EXPECT_EQ(value_of(output[0]), 2 * static_cast<float>(output.number()));
      }
    }
  }
  let_come_back(running);
  EXPECT_THAT(read_late(), ElementsAre(4, 5, 6, 7));
  EXPECT_FALSE(pipeline->closed_by());
}

// Four frames whose common call fails run one by one, and the third hangs.
TEST_F(LeftBehind, FramesThatRanAloneBeforeTheOneThatHangsStay) {
  chain();
  network.together("far", {4}, [](Inputs) -> Status { return internal_error("never together"); });
  network.plan.stages[1].batch.wait = std::chrono::seconds(600);
  start({.capacity = 8});
  const auto running = threads();
  hang(6);
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 4; ++i) push();
    for (int i = 0; i < 4; ++i) {
      const Output output = pop();
      const bool hung = output.number() == 6 || output.number() == 7;
      ASSERT_EQ(output.ok(), !hung) << output.error().message();
      if (output.ok()) {
        EXPECT_EQ(value_of(output[0]), 2 * static_cast<float>(output.number()));
      } else {
        EXPECT_THAT(output.error().message(), HasSubstr("the call hangs"));
      }
    }
  }
  const auto far = pipeline->stats().stages[1];
  EXPECT_EQ(far.frames, 14U);
  EXPECT_EQ(far.errors, 2U);
  let_come_back(running);
  EXPECT_THAT(read_late(), ElementsAre(6));
  EXPECT_FALSE(pipeline->closed_by());
}

TEST_F(LeftBehind, EdgesThatDropFramesGoOn) {
  chain();
  network.finish();
  for (auto& edge : network.plan.edges) edge.policy = plan::FullPolicy::kDropOldest;
  start({.capacity = 2}, {.in_flight = 16});
  const auto running = threads();
  hang(3);
  run(20, doubled_but(3));
  let_come_back(running);
  EXPECT_THAT(read_late(), ElementsAre(3));
  run(20, doubled_but(-1));
  EXPECT_FALSE(pipeline->closed_by());
}

}  // namespace
}  // namespace penstock::pipeline::left_behind_test
