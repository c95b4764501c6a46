// Calls that wait for more frames: who is computed for nobody keeps nobody waiting, nor waits.
#include <algorithm>
#include <atomic>
#include <future>
#include <semaphore>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/function/function.h"
#include "penstock/pipeline/pipeline.h"
#include "tests/support/fake_backend.h"

namespace penstock::pipeline::filling_test {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

// Long before the plan's 600 s are over.
constexpr std::chrono::nanoseconds kSoonEnough = std::chrono::seconds(60);
constexpr float kFails = -1, kDrops = -2;

// in -> first (fails or drops what is negative) -> net (up to 4 frames in a call, which the first
// one waits 600 s for) -> out
struct Filling : ::testing::Test {
  Filling() {
    network.input("in");
    network.function("first",
                     function::stateless("first", {{"in", scalar()}}, {{"x", scalar()}},
                                         [](Inputs in, Outputs to) -> Status {
                                           const float x = value_of(*in[0]);
                                           if (x == kFails) return internal_error("negative");
                                           if (x == kDrops) return make_error(Code::kAborted, "no");
                                           to[0]->as<float>()[0] = x;
                                           return {};
                                         }),
                     {"in"}, {"x"});
    network.stage("net", {"x"}, {"y"}, unary([](float x) { return 2 * x; })).output("y");
    network.together("net", {2, 3, 4});
    network.plan.stages[1].batch.wait = std::chrono::seconds(600);
  }

  /// A branch that holds its first frame until it is opened, then fails it if that is negative.
  void add_a_branch() {
    network.input("beside").stage("other", {"beside"}, {"z"}, [this](Inputs in, Outputs to) {
      if (holds.exchange(false)) {
        entered.release();
        open.acquire();
      }
      to[0]->as<float>()[0] = value_of(*in[0]);
      return value_of(*in[0]) < 0 ? Status(internal_error("beside")) : Status();
    });
    network.output("z");
  }
  void start() {
    auto started = network.start({.capacity = 16});
    ASSERT_TRUE(started) << started.error().message();
    pipeline = *std::move(started);
  }
  void push(const std::vector<float>& values, const FrameOptions& options = {}) {
    std::vector<Tensor> inputs;
    for (const float value : values) inputs.push_back(number(value));
    ASSERT_TRUE(pipeline->push(inputs, kSoonEnough, options));
  }
  void push_all(const std::vector<float>& frames) {
    for (const float value : frames) push({value});
  }
  Outcome pop() {
    auto popped = pipeline->pop(kSoonEnough);
    EXPECT_TRUE(popped && *popped) << "it waits for others";
    if (!popped || !*popped) return Outcome::kCancelled;
    return (*popped)->outcome();
  }
  std::vector<Outcome> pop(int frames) {
    std::vector<Outcome> outcomes;
    for (int i = 0; i < frames && !HasFailure(); ++i) outcomes.push_back(pop());
    return outcomes;
  }
  /// Until so many frames are through the first stage, and the second one, most likely, asleep.
  void wait_in_front_of_net(unsigned frames) {
    while (pipeline->stats().edges[edge_to_net()].depth != frames) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  [[nodiscard]] std::size_t edge_to_net() const {
    const auto& edges = network.plan.edges;
    const auto leads = [](const plan::Edge& edge) { return edge.to == std::vector<int>{1}; };
    return static_cast<std::size_t>(std::ranges::find_if(edges, leads) - edges.begin());
  }
  std::vector<std::uint64_t> calls() { return pipeline->stats().stages[1].calls; }

  FakeNetwork network;
  std::atomic<bool> holds{false};
  std::binary_semaphore entered{0}, open{0};
  std::unique_ptr<Pipeline> pipeline;
};

TEST_F(Filling, AFrameThatIsLostBeforeItWaitsForNoOthers) {
  start();
  push_all({kFails, kDrops});
  EXPECT_THAT(pop(2), ElementsAre(Outcome::kError, Outcome::kDropped));
  EXPECT_THAT(calls(), ElementsAre(0, 0, 0, 0));
}

TEST_F(Filling, ALostFramesCallbackWaitsForNoOthers) {
  start();
  for (const bool in_order : {true, false}) {
    std::promise<Outcome> called;
    auto outcome = called.get_future();
    push({kFails}, {.done = [&](const Output& output) { called.set_value(output.outcome()); },
                    .in_order = in_order});
    const bool came = outcome.wait_for(kSoonEnough) == std::future_status::ready;
    if (!came) pipeline.reset();  // Which calls back, too.
    ASSERT_TRUE(came) << "it waits for others";
    EXPECT_EQ(outcome.get(), Outcome::kError);
  }
}

TEST_F(Filling, FramesBehindALostOneStillGoTogether) {
  start();
  push_all({kFails, 1, 2, 3, 4});
  EXPECT_THAT(pop(5),
              ElementsAre(Outcome::kError, Outcome::kOk, Outcome::kOk, Outcome::kOk, Outcome::kOk));
  EXPECT_THAT(calls(), ElementsAre(0, 0, 0, 1));
}

TEST_F(Filling, LostFramesTakeNoPlaceInACall) {
  start();
  push_all({1, kFails, 2, kDrops, 3, kFails, 4});
  EXPECT_THAT(pop(7), ElementsAre(Outcome::kOk, Outcome::kError, Outcome::kOk, Outcome::kDropped,
                                  Outcome::kOk, Outcome::kError, Outcome::kOk));
  EXPECT_THAT(calls(), ElementsAre(0, 0, 0, 1));
}

// A call looks at twice as many frames as it takes.
TEST_F(Filling, ManyLostFramesDoNotWaitBehindOneThatIsComputed) {
  start();
  push_all({1});
  for (int i = 0; i < 9; ++i) push({kFails});
  const auto outcomes = pop(10);
  ASSERT_EQ(outcomes.size(), 10U);
  EXPECT_EQ(outcomes.front(), Outcome::kOk);
  EXPECT_THAT(calls(), ElementsAre(1, 0, 0, 0));
}

TEST_F(Filling, ACancelledFrameIsLetOut) {
  start();
  for (FrameNumber frame = 0; frame < 20 && !HasFailure(); ++frame) {
    push({1});
    wait_in_front_of_net(1);
    EXPECT_TRUE(pipeline->cancel(frame));
    EXPECT_EQ(pop(), Outcome::kCancelled);
  }
  EXPECT_THAT(calls(), ElementsAre(0, 0, 0, 0));
}

TEST_F(Filling, WhoWaitedWithACancelledFrameStaysTogether) {
  start();
  push_all({1, 2, 3});
  wait_in_front_of_net(3);
  EXPECT_TRUE(pipeline->cancel(0));
  EXPECT_EQ(pop(), Outcome::kCancelled);
  push_all({4, 5});
  EXPECT_THAT(pop(4), ElementsAre(Outcome::kOk, Outcome::kOk, Outcome::kOk, Outcome::kOk));
  EXPECT_THAT(calls(), ElementsAre(0, 0, 0, 1));
}

TEST_F(Filling, AFrameThatFailsInABranchBesideIsLetOut) {
  add_a_branch();
  start();
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    holds = true;
    push({1, -1});
    entered.acquire();
    wait_in_front_of_net(1);
    open.release();
    EXPECT_EQ(pop(), Outcome::kError);
  }
}

TEST_F(Filling, AFrameThatAnEdgeBesideDropsIsLetOut) {
  add_a_branch();
  for (auto& edge : network.finish().edges) {
    if (edge.tensors.front() == "beside") edge.policy = plan::FullPolicy::kLatest;
  }
  start();
  holds = true;
  push({1, 1});
  entered.acquire();
  push({2, 2});
  wait_in_front_of_net(2);
  EXPECT_TRUE(pipeline->cancel(0));
  wait_in_front_of_net(1);
  push({3, 3});  // In the place of the second one.
  wait_in_front_of_net(1);
  open.release();
  EXPECT_THAT(pop(2), ElementsAre(Outcome::kCancelled, Outcome::kDropped));
}

// in -> first -> net -> both (reads `beside` as well), whose edge drops the oldest of two frames.
TEST_F(Filling, AnEdgePastTheStageThatMayDropFramesKeepsNoMore) {
  network.input("beside").stage("both", {"y", "beside"}, {"z"},
                                [](Inputs in, Outputs to) -> Status {
                                  to[0]->as<float>()[0] = value_of(*in[0]) + value_of(*in[1]);
                                  return {};
                                });
  network.output("z");
  for (auto& edge : network.finish().edges) {
    if (edge.tensors.front() != "beside") continue;
    edge.policy = plan::FullPolicy::kDropOldest, edge.capacity = 2;
  }
  pipeline = *network.start({});
  push({1, 1});
  push({2, 2});
  EXPECT_THAT(pop(2), ElementsAre(Outcome::kOk, Outcome::kOk));
  EXPECT_THAT(calls(), ElementsAre(0, 1, 0, 0));
}

// Each frame here takes the place of the one before it, which waits: or none would ever go.
TEST_F(Filling, AFrameInThePlaceOfADroppedOneGoesOnWithItsWait) {
  add_a_branch();
  network.plan.stages[1].batch.wait = std::chrono::milliseconds(200);
  for (auto& edge : network.finish().edges) {
    if (edge.tensors.front() == "beside") edge.policy = plan::FullPolicy::kLatest;
  }
  constexpr int kMost = 2000;  // Far longer than the wait.
  pipeline = *network.start({.capacity = 2 * kMost});
  holds = true;
  push({1, 1});
  entered.acquire();
  EXPECT_TRUE(pipeline->cancel(0));
  wait_in_front_of_net(0);
  int frames = 0;
  while (calls()[0] == 0 && frames < kMost && !HasFailure()) {
    push({2, 2});
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++frames;
  }
  open.release();
  EXPECT_LT(frames, kMost) << "each dropped frame makes the next one wait anew";
}

TEST_F(Filling, GivenUpFramesAreLetOut) {
  start();
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    push_all({1, 2});
    wait_in_front_of_net(2);
    pipeline->give_up();
    EXPECT_THAT(pop(2), ElementsAre(Outcome::kCancelled, Outcome::kCancelled));
  }
}

TEST_F(Filling, AHurriedFrameAndThoseBeforeItWaitForNoOthers) {
  start();
  push_all({1, 2});
  wait_in_front_of_net(2);
  pipeline->hurry(1);
  EXPECT_THAT(pop(2), ElementsAre(Outcome::kOk, Outcome::kOk));
  push_all({3, 4, 5, 6});  // These do.
  EXPECT_THAT(pop(4), ElementsAre(Outcome::kOk, Outcome::kOk, Outcome::kOk, Outcome::kOk));
  // One by one where the stage had seen the first alone, and got no CPU meanwhile.
  EXPECT_THAT(calls(), AnyOf(ElementsAre(0, 1, 0, 1), ElementsAre(2, 0, 0, 1)));
}

TEST_F(Filling, RunWaitsForNoOthers) {
  start();
  for (const float value : {1.F, 2.F}) {
    auto ran =
        std::async(std::launch::async, [&] { return pipeline->run(std::vector{number(value)}); });
    if (ran.wait_for(kSoonEnough) != std::future_status::ready) pipeline->cancel();
    const auto outputs = ran.get();
    ASSERT_TRUE(outputs) << outputs.error().message();
    EXPECT_EQ(value_of(outputs->front()), 2 * value);
  }
}

// in, s -> net (s + x) -> y, which is the stream's next s: what is cancelled is computed too.
TEST(FillingWithStates, ACancelledFrameIsLetOut) {
  FakeNetwork network;
  network.input("in").state_input("s");
  network.stage("net", {"in", "s"}, {"y"}, [](Inputs in, Outputs to) -> Status {
    to[0]->as<float>()[0] = value_of(*in[0]) + value_of(*in[1]);
    return {};
  });
  network.state("y", "s").output("y").together("net", {2});
  network.plan.streams.most = 2;
  network.plan.stages[0].batch.wait = std::chrono::seconds(600);
  auto pipeline = *network.start({.capacity = 8});
  for (FrameNumber frame = 0; frame < 20; ++frame) {
    ASSERT_TRUE(pipeline->push(std::vector{number(1)}, kSoonEnough));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(pipeline->cancel(frame));
    const auto popped = pipeline->pop(kSoonEnough);
    ASSERT_TRUE(popped && *popped) << "it waits for others";
    EXPECT_EQ((*popped)->outcome(), Outcome::kCancelled);
  }
  EXPECT_EQ(value_of(pipeline->run(std::vector{number(1)})->front()), 21);
}

}  // namespace
}  // namespace penstock::pipeline::filling_test
