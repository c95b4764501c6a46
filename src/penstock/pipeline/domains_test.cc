// Memory domains: stages whose tensors the host cannot read, and what is copied between them.
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/pipeline/pipeline.h"
#include "tests/support/fake_accelerator.h"
#include "tests/support/temporary_folder.h"

namespace penstock::pipeline::domains_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

constexpr std::chrono::nanoseconds kLong = std::chrono::seconds(60);

Function doubled() {
  return unary([](float x) { return 2 * x; });
}
Function plus(float more) {
  return unary([more](float x) { return x + more; });
}
Function sum() {
  return [](Inputs in, Outputs out) -> Status {
    out[0]->as<float>()[0] = value_of(*in[0]) + value_of(*in[1]);
    return {};
  };
}

struct Domains : ::testing::Test {
  Domains() { network.registry.add(accelerator); }

  // in -> a (here: + 1) -> far (a device: 2 x) -> b (here: + 3) -> out
  void build_chain(const std::vector<int>& devices = {0}) {
    network.input("in")
        .stage("a", {"in"}, {"x"}, plus(1))
        .stage("far", {"x"}, {"y"}, doubled())
        .stage("b", {"y"}, {"out"}, plus(3))
        .output("out");
    accelerator->take(network, "far", devices);
  }
  static float of_chain(float in) { return 2 * (in + 1) + 3; }

  Status try_start(const plan::StreamOptions& stream = {.capacity = 4},
                   const Options& options = {}) {
    auto started = network.start(stream, options);
    if (!started) return started.error();
    pipeline = *std::move(started);
    accelerator->forget_copies();
    return {};
  }
  void start(const plan::StreamOptions& stream = {.capacity = 4}, const Options& options = {}) {
    const Status started = try_start(stream, options);
    ASSERT_TRUE(started) << started.error().message();
  }
  void push() {
    ASSERT_TRUE(pipeline->push(std::vector{number(static_cast<float>(pushed++))}, kLong));
  }
  Output pop() {
    auto popped = pipeline->pop(kLong);
    EXPECT_TRUE(popped && *popped);
    EXPECT_EQ((*popped)->number(), static_cast<FrameNumber>(out++));
    return **std::move(popped);
  }
  void expect_good(const Output& output, const std::function<float(float)>& expected) {
    ASSERT_TRUE(output.ok()) << output.error().message();
    for (std::size_t i = 0; i < output.size(); ++i) ASSERT_TRUE(output[i].in_host_memory());
    EXPECT_EQ(value_of(output[0]), expected(static_cast<float>(output.number())));
  }
  // One frame after the other, with up to four in flight.
  void run(int frames, const std::function<float(float)>& expected) {
    for (int i = 0; i < frames; ++i) {
      push();
      if (i >= 3) expect_good(pop(), expected);
    }
    while (out < pushed) expect_good(pop(), expected);
  }
  [[nodiscard]] StageStats stats(const std::string& stage) const {
    const auto all = pipeline->stats();
    return *std::ranges::find(all.stages, stage, &StageStats::name);
  }
  FakeMemory& memory(std::size_t device = 0) { return accelerator->memory_of(device); }

  std::shared_ptr<FakeAccelerator> accelerator = std::make_shared<FakeAccelerator>();
  FakeNetwork network;
  std::unique_ptr<Pipeline> pipeline;
  int pushed = 0, out = 0;
};

TEST_F(Domains, FromTheHostToADeviceAndBack) {
  for (const bool asynchronous : {true, false}) {
    accelerator->asynchronous = asynchronous;
    if (network.plan.stages.empty()) build_chain();
    pushed = out = 0;
    start();
    run(20, of_chain);
    EXPECT_EQ(memory().from_host, 20);
    EXPECT_EQ(memory().to_host, 20);
    EXPECT_EQ(stats("a").copies, 0U);
    EXPECT_EQ(stats("far").copies, 20U);
    EXPECT_EQ(stats("b").copies, 20U);
    EXPECT_EQ(stats("a").transfer.count, 0U);
    EXPECT_EQ(stats("far").transfer.count, 20U);
    EXPECT_GT(stats("far").transfer.max_ns, 0);
    EXPECT_GT(stats("b").transfer.max_ns, 0);
    EXPECT_EQ(stats("far").allocations, 0U);
    pipeline.reset();
    EXPECT_EQ(HiddenPages::count(), 0U);
  }
}

TEST_F(Domains, WhatTheCallerGivesMustLieInTheHosts) {
  const TemporaryFolder folder;
  network.folder = folder.path();
  network.parameter("w", number(1));
  network.input("in").state_input("s");
  network.stage("a", {"in", "s", "w"}, {"out"}, plus(1)).output("out").state("out", "s");
  start();
  Tensor there = *memory().allocate(DType::kF32, sizeof(float));
  ASSERT_TRUE(there.set_dims(std::vector<std::int64_t>{1}));
  const auto refused = [](const auto& result, const std::string& name) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
    EXPECT_THAT(result.error().message(),
                HasSubstr(name + ": expected a tensor in the host's memory, found one in memory "
                                 "domain 1"));
  };
  refused(pipeline->push(std::vector{there}, kLong), "push: input 'in'");
  const auto slots = pipeline->acquire_input(kLong);
  ASSERT_TRUE(slots);
  (*slots)[0] = there;
  refused(pipeline->push_acquired(), "push_acquired: input 'in'");
  refused(pipeline->set_parameters("", {{"w", there}}), "set_parameters: 'w'");
  refused(pipeline->restore_stream(0, {{"s", there}}), "state 's'");
  push();
  EXPECT_TRUE(pop().ok());
}

TEST_F(Domains, TheirMemoryIsNotTheHosts) {
  build_chain();
  start({.capacity = 4}, {.max_held = 0});
  const auto stats = pipeline->stats();
  constexpr std::uint64_t kEdge = 4 * sizeof(float);
  const std::map<std::string, std::uint64_t> none, on_device{{memory().name(), kEdge}},
      here{{"host", kEdge}};
  const auto lies = [&](std::size_t edge) {
    return std::tuple(stats.edges[edge].memory, stats.edges[edge].bytes, stats.edges[edge].mirrors);
  };
  EXPECT_EQ(lies(0), std::tuple("host", kEdge, none));           // in -> a
  EXPECT_EQ(lies(1), std::tuple("host", kEdge, on_device));      // a -> far
  EXPECT_EQ(lies(2), std::tuple(memory().name(), kEdge, here));  // far -> b
  EXPECT_EQ(lies(3), std::tuple("host", kEdge, none));           // b -> out
  EXPECT_EQ(stats.memory_bytes, 4 * kEdge);
  EXPECT_EQ(pipeline->memory_bytes(), 4 * kEdge);
  pipeline.reset();
  // What b reads on the same device needs no room here.
  accelerator->take(network, "b");
  start({.capacity = 4}, {.max_held = 0});
  EXPECT_EQ(pipeline->memory_bytes(), 3 * kEdge);
  EXPECT_EQ(pipeline->stats().edges[2].mirrors, none);
  // It is known before the start where the backends are, else all counts as the host's.
  const auto plan = network.with({.capacity = 4});
  EXPECT_EQ(memory_ceiling(plan, {.max_held = 0}, network.registry), 3 * kEdge);
  EXPECT_EQ(memory_ceiling(plan, {.max_held = 0}), 4 * kEdge);
}

TEST_F(Domains, StagesOnOneDeviceCopyNothingBetweenThem) {
  network.input("in")
      .stage("d1", {"in"}, {"x"}, doubled())
      .stage("d2", {"x"}, {"out"}, plus(5))
      .output("out");
  accelerator->take(network, "d1");
  accelerator->take(network, "d2");
  start();
  run(20, [](float in) { return 2 * in + 5; });
  EXPECT_EQ(memory().from_host, 20);
  EXPECT_EQ(memory().to_host, 20);
  EXPECT_EQ(stats("d1").copies, 20U);  // Its input.
  EXPECT_EQ(stats("d2").copies, 20U);  // The output.
}

TEST_F(Domains, BetweenDevicesThroughTheHostOrDirectly) {
  network.input("in")
      .stage("d1", {"in"}, {"x"}, doubled())
      .stage("d2", {"x"}, {"y"}, plus(5))
      .stage("b", {"y"}, {"out"}, plus(0))
      .output("out");
  accelerator->take(network, "d1", {0});
  accelerator->take(network, "d2", {1});
  for (const bool direct : {false, true}) {
    memory(1).direct = direct;
    pushed = out = 0;
    start();
    run(20, [](float in) { return 2 * in + 5; });
    EXPECT_EQ(memory(0).to_host, direct ? 0 : 20);
    EXPECT_EQ(memory(1).from_host, direct ? 0 : 20);
    EXPECT_EQ(memory(1).from_device, direct ? 20 : 0);
    EXPECT_EQ(stats("d2").copies, direct ? 20U : 40U);
  }
}

TEST_F(Domains, ReadersOfOneMemoryShareACopy) {
  network.input("in")
      .stage("a", {"in"}, {"x"}, plus(1))
      .stage("left", {"x"}, {"l"}, doubled())
      .stage("right", {"x"}, {"r"}, plus(10))
      .stage("here", {"x"}, {"h"}, plus(0))
      .stage("both", {"l", "r"}, {"both"}, sum())
      .stage("join", {"both", "h"}, {"out"}, sum())
      .output("out");
  accelerator->take(network, "left");
  accelerator->take(network, "right");
  accelerator->take(network, "both");
  start();
  run(40, [](float in) { return 2 * (in + 1) + (in + 11) + (in + 1); });
  EXPECT_EQ(memory().from_host, 40);
  EXPECT_EQ(memory().to_host, 40);
  EXPECT_EQ(stats("left").copies + stats("right").copies, 40U);
  EXPECT_EQ(stats("here").copies, 0U);
  EXPECT_EQ(stats("both").copies, 0U);
}

TEST_F(Domains, ReadersHereShareACopyToo) {
  network.input("in")
      .stage("far", {"in"}, {"x"}, doubled())
      .stage("left", {"x"}, {"l"}, plus(1))
      .stage("right", {"x"}, {"r"}, plus(10))
      .stage("join", {"l", "r"}, {"out"}, sum())
      .output("out");
  accelerator->take(network, "far");
  start();
  run(40, [](float in) { return 4 * in + 11; });
  EXPECT_EQ(memory().to_host, 40);
  EXPECT_EQ(stats("left").copies + stats("right").copies, 40U);
}

TEST_F(Domains, ReplicasOnTwoDevices) {
  build_chain({0, 1});
  start();
  run(60, of_chain);
  EXPECT_EQ(memory(0).from_host + memory(1).from_host, 60);
  EXPECT_EQ(memory(0).to_host + memory(1).to_host, 60);
  EXPECT_EQ(stats("far").copies, 120U);
  EXPECT_EQ(stats("b").copies, 0U);
}

TEST_F(Domains, AReaderFindsWhatAReplicaOfItsMemoryWrote) {
  network.input("in")
      .stage("far", {"in"}, {"x"}, doubled())
      .stage("next", {"x"}, {"y"}, plus(5))
      .stage("b", {"y"}, {"out"}, plus(0))
      .output("out");
  accelerator->take(network, "far", {0, 1});
  accelerator->take(network, "next", {1});
  start();
  run(60, [](float in) { return 2 * in + 5; });
  // Those of the other device.
  EXPECT_EQ(stats("next").copies, static_cast<std::uint64_t>(memory(0).from_host));
}

TEST_F(Domains, AnOutputThatAStageOfTheDeviceReadsToo) {
  network.input("in")
      .stage("far", {"in"}, {"x"}, doubled())
      .stage("next", {"x"}, {"y"}, plus(1))
      .stage("other", {"x"}, {"z"}, plus(2))
      .output("x")
      .output("y")
      .output("z");
  accelerator->take(network, "far");
  accelerator->take(network, "next");
  accelerator->take(network, "other", {1});
  start();
  for (int i = 0; i < 20; ++i) {
    push();
    const Output output = pop();
    expect_good(output, [](float in) { return 2 * in; });
    EXPECT_EQ(value_of(output[1]), 2.0F * static_cast<float>(i) + 1);
    EXPECT_EQ(value_of(output[2]), 2.0F * static_cast<float>(i) + 2);
  }
  EXPECT_EQ(stats("far").copies, 40U);    // Its input, and the output.
  EXPECT_EQ(stats("next").copies, 20U);   // Its output: what it reads lies there.
  EXPECT_EQ(stats("other").copies, 40U);  // From what was copied to the host.
  EXPECT_EQ(memory(0).to_host, 40);
}

TEST_F(Domains, ResultsAreHeldAndTakenBeyondThePipeline) {
  network.input("in").stage("far", {"in"}, {"out"}, doubled()).output("out");
  accelerator->take(network, "far");
  start();
  std::vector<Output> held;
  for (int i = 0; i < 4; ++i) {
    push();
    held.push_back(pop());
  }
  const Tensor taken = held[1].take(0);
  pipeline.reset();
  EXPECT_EQ(value_of(taken), 2);
  EXPECT_EQ(value_of(held[3][0]), 6);
  held.clear();
  EXPECT_EQ(HiddenPages::count(), 0U);
}

TEST_F(Domains, OutputsThatWereTakenGetNewStorage) {
  network.input("in").stage("far", {"in"}, {"out"}, doubled()).output("out");
  accelerator->take(network, "far");
  start({.capacity = 2});
  std::vector<Tensor> taken;
  for (int i = 0; i < 10; ++i) {
    push();
    taken.push_back(pop().take(0));
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(value_of(taken[static_cast<std::size_t>(i)]), 2.0F * static_cast<float>(i));
  }
}

TEST_F(Domains, LanesKeepTheOrderOfSubmission) {
  accelerator->contexts = 4;
  build_chain();
  start({.capacity = 8});
  EXPECT_EQ(stats("far").lanes, 4);
  accelerator->hold(0, true);
  for (int i = 0; i < 8; ++i) push();
  accelerator->wait_for(0, 4);
  accelerator->hold(0, false);
  while (out < pushed) expect_good(pop(), of_chain);
  run(40, of_chain);
  auto ended = accelerator->ended(0);
  ended.erase(ended.begin(), ended.begin() + 4);  // The lanes' warm-up.
  ASSERT_EQ(ended.size(), 48U);
  for (std::size_t i = 0; i < ended.size(); ++i) EXPECT_EQ(ended[i], i);
}

TEST_F(Domains, ShapesOfTheFrameAreCopiedWithIt) {
  const Type some = Type::tensor(DType::kF32, std::vector<Dim>{{Dim::kOpen, "n", 4}});
  const auto twice = [](Inputs in, Outputs written) -> Status {
    if (!written[0]->set_dims(in[0]->dims())) return internal_error("no room");
    for (std::size_t i = 0; i < in[0]->count(); ++i) {
      written[0]->as<float>()[i] = 2 * in[0]->as<float>()[i];
    }
    return {};
  };
  network.input("in", some)
      .stage("far", {"in"}, {"x"}, twice, 1, {some})
      .stage("b", {"x"}, {"out"}, twice, 1, {some})
      .output("out");
  accelerator->take(network, "far");
  start();
  for (const std::int64_t n : {3, 0, 4, 1, 2, 0, 4}) {
    Tensor in = Tensor::allocate(DType::kF32, {n});
    for (std::int64_t i = 0; i < n; ++i) {
      in.as<float>()[static_cast<std::size_t>(i)] = static_cast<float>(n + i);
    }
    ASSERT_TRUE(pipeline->push(std::vector{in}, kLong));
    const Output output = pop();
    ASSERT_TRUE(output.ok()) << output.error().message();
    ASSERT_EQ(output[0].dims(), std::vector<std::int64_t>{n});
    for (std::size_t i = 0; i < in.count(); ++i) {
      EXPECT_EQ(output[0].as<float>()[i], 4 * in.as<float>()[i]);
    }
  }
  EXPECT_EQ(memory().from_host, 5);  // Of those that hold something.
}

TEST_F(Domains, CallsForSeveralFramesReadFromADevice) {
  network.input("in")
      .stage("far", {"in"}, {"x"}, doubled())
      .stage("b", {"x"}, {"out"}, plus(3))
      .together("b", {2, 4})
      .output("out");
  accelerator->take(network, "far");
  start({.capacity = 8});
  accelerator->hold(0, true);
  for (int i = 0; i < 8; ++i) push();
  accelerator->hold(0, false);
  while (out < pushed) expect_good(pop(), [](float in) { return 2 * in + 3; });
  run(40, [](float in) { return 2 * in + 3; });
  EXPECT_EQ(memory().to_host, 48);
}

TEST_F(Domains, EdgesThatDropFrames) {
  build_chain();
  for (const auto policy : {plan::FullPolicy::kDropOldest, plan::FullPolicy::kLatest}) {
    network.finish();
    for (auto& edge : network.plan.edges) edge.policy = policy;
    network.plan.edges.back().policy = plan::FullPolicy::kBlock;
    pushed = out = 0;
    start({.capacity = 2});
    for (int i = 0; i < 60; ++i) push();
    int good = 0;
    while (out < pushed) {
      const Output output = pop();
      if (output.outcome() == Outcome::kDropped) continue;
      expect_good(output, of_chain);
      ++good;
    }
    EXPECT_GT(good, 0);
  }
}

TEST_F(Domains, ACopyThatFailsConcernsItsFrameOnly) {
  build_chain();
  std::atomic<bool> started{false};
  memory().on_copy = [&](const Tensor& from, const Tensor&) -> Status {
    if (!started) return {};
    // What is on its way to the host is 2 (in + 1): frame 5 fails there, frame 2 on its way in.
    const float value = from.in_host_memory()
                            ? value_of(from)
                            : *static_cast<const float*>(HiddenPages::used(from.data()));
    const float bad = from.in_host_memory() ? 3 : 12;
    return value == bad ? internal_error("the link is down") : Status();
  };
  start();
  started = true;
  for (int i = 0; i < 12; ++i) {
    push();
    const Output output = pop();
    if (i == 2) {
      EXPECT_EQ(output.error().message(),
                "stage 'far': frame 2: tensor 'x': copy from 'host' to 'cuda:0': the link is down");
    } else if (i == 5) {
      EXPECT_EQ(output.error().message(),
                "stage 'b': frame 5: tensor 'y': copy from 'cuda:0' to 'host': the link is down");
    } else {
      expect_good(output, of_chain);
    }
  }
  EXPECT_EQ(stats("far").errors, 1U);
  EXPECT_EQ(stats("b").errors, 1U);
}

TEST_F(Domains, AnOutputThatCannotBeCopiedFailsItsFrame) {
  network.input("in").stage("far", {"in"}, {"out"}, doubled()).output("out");
  accelerator->take(network, "far");
  std::atomic<bool> fails{false};
  memory().on_copy = [&](const Tensor& from, const Tensor&) -> Status {
    return fails && !from.in_host_memory() ? internal_error("the link is down") : Status();
  };
  for (const bool asynchronous : {true, false}) {
    accelerator->asynchronous = asynchronous;
    pushed = out = 0;
    start();
    fails = true;
    push();
    EXPECT_EQ(pop().error().message(),
              "stage 'far': frame 0: tensor 'out': copy from 'cuda:0' to 'host': the link is down");
    fails = false;
    run(5, [](float in) { return 2 * in; });
  }
}

// However slow the machine is: no other call is timed before the count, and behind it one that
// takes longer than it may costs its own frame alone.
TEST_F(Domains, ACallThatHangsLosesItsFrameAndGetsNewMemory) {
  build_chain();
  network.plan.stages[1].max_run = std::chrono::milliseconds(50);
  network.plan.stages[1].max_left_behind = 1024;
  start();
  const auto pages = HiddenPages::count();
  accelerator->hold(0, true);
  push();
  EXPECT_THAT(pop().error().message(), HasSubstr("stage 'far': frame 0: the call hangs"));
  EXPECT_EQ(HiddenPages::count(), pages + 1);  // What the call still writes to.
  accelerator->hold(0, false);
  for (int good = 0; good < 8;) {
    push();
    const Output output = pop();
    if (output.ok()) {
      expect_good(output, of_chain);
      ++good;
    } else {
      EXPECT_THAT(output.error().message(), HasSubstr("stage 'far': frame"));
      EXPECT_THAT(output.error().message(), HasSubstr("the call hangs"));
    }
  }
  EXPECT_FALSE(pipeline->closed_by());
}

TEST_F(Domains, ACallThatHangsReadsWhatItWasGivenForAsLongAsItGoesOn) {
  build_chain();
  network.plan.stages[1].max_run = std::chrono::milliseconds(20);
  network.plan.stages[1].max_left_behind = 1000;
  std::mutex mutex;
  std::vector<float> read;
  network.backend->models.at("far.onnx").run = [&](Inputs in, Outputs to) -> Status {
    const std::scoped_lock lock(mutex);
    read.push_back(value_of(*in[0]));
    return doubled()(in, to);
  };
  accelerator->take(network, "far");
  start({.capacity = 2});
  accelerator->hold(0, true);
  read.clear();                  // What it was warmed up on.
  for (int i = 0; i < 6; ++i) {  // Each slot, and its copy on the device, is written anew.
    push();
    EXPECT_THAT(pop().error().message(), HasSubstr("the call hangs"));
  }
  accelerator->hold(0, false);
  const auto good = [&] {
    push();
    return pop().ok();
  };
  while (!good()) {  // A slow machine may give up more.
  }
  const std::scoped_lock lock(mutex);
  std::vector<float> given(static_cast<std::size_t>(pushed));
  std::iota(given.begin(), given.end(), 1.0F);
  EXPECT_EQ(read, given);
}

// Others may wait for the copy: there is nobody to whom it could be left.
TEST_F(Domains, ACopyThatHangsOnAStagesOwnThreadEndsThePipeline) {
  build_chain();
  accelerator->asynchronous = false;
  network.plan.stages[1].max_run = std::chrono::milliseconds(100);
  network.plan.stages[1].max_left_behind = 2;
  // The thread that hangs may outlive the test: what it reads is its own too.
  const auto hangs = std::make_shared<std::atomic<bool>>(false);
  memory().on_copy = [hangs](const Tensor&, const Tensor&) -> Status {
    const auto own = hangs;
    own->wait(true);
    return {};
  };
  start();
  *hangs = true;
  push();
  EXPECT_THAT(pop().error().message(), HasSubstr("stage 'far': frame 0: the call hangs"));
  EXPECT_TRUE(pipeline->closed_by());
  *hangs = false;
  hangs->notify_all();
}

TEST_F(Domains, ADeviceThatIsLostFailsItsFramesAndThePipelineEnds) {
  for (const bool asynchronous : {true, false}) {
    auto lost = std::make_shared<FakeAccelerator>();
    lost->asynchronous = asynchronous;
    lost->contexts = 4;
    FakeNetwork with;
    with.registry.add(lost);
    with.input("in")
        .stage("a", {"in"}, {"x"}, plus(1))
        .stage("far", {"x"}, {"y"}, doubled())
        .stage("more", {"y"}, {"z"}, doubled())
        .stage("b", {"z"}, {"out"}, plus(3))
        .output("out");
    lost->take(with, "far", {0});
    lost->take(with, "more", {1});
    auto started = with.start({.capacity = 8});
    ASSERT_TRUE(started) << started.error().message();
    pipeline = *std::move(started);
    pushed = out = 0;
    for (int i = 0; i < 4; ++i) push();
    while (out < pushed) expect_good(pop(), [](float in) { return 4 * (in + 1) + 3; });
    lost->hold(0, true);
    for (int i = 0; i < 8; ++i) push();
    lost->wait_for(0, asynchronous ? 4 : 1);
    lost->lose(0);
    while (out < pushed) {
      const Output output = pop();
      ASSERT_FALSE(output.ok());
      EXPECT_THAT(output.error().message(), HasSubstr("stage 'far': frame "));
      EXPECT_THAT(output.error().message(), HasSubstr("device 'cuda:0' was lost"));
      EXPECT_EQ(output.error().code, Code::kUnavailable);
    }
    push();
    EXPECT_EQ(pop().error().message(),
              "stage 'far': frame 12: tensor 'x': copy from 'host' to 'cuda:0': device 'cuda:0' "
              "was lost");
    pipeline->close();
    EXPECT_FALSE(*pipeline->pop(kLong));
    pipeline.reset();
    EXPECT_EQ(HiddenPages::count(), 0U);
  }
}

TEST_F(Domains, ADeviceWithoutRoomIsToldWithTheEdge) {
  build_chain();
  memory().room = 5;
  const Status started = try_start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Code::kResourceExhausted);
  EXPECT_EQ(started.error().message(),
            "edge 'far -> b': 4 bytes in memory 'cuda:0': the device is full");
  EXPECT_EQ(HiddenPages::count(), 0U);
}

TEST_F(Domains, AnOutputThatTheBackendPutsElsewhereIsRefused) {
  // A backend that believes the host's memory to be the device's.
  struct Confused : FakeBackend {
    [[nodiscard]] std::shared_ptr<backend::Memory> memory(const device::Device&) const override {
      return own;
    }
    std::shared_ptr<FakeMemory> own = std::make_shared<FakeMemory>(0);
  };
  auto confused = std::make_shared<Confused>();
  network.input("in").stage("far", {"in"}, {"out"}, {}).output("out");
  auto model = network.backend->models.at("far.onnx");
  model.run = [](Inputs, Outputs written) -> Status {
    *written[0] = number(1);
    return {};
  };
  confused->models["far.onnx"] = model;
  backend::Registry registry;
  registry.add(confused);
  auto started = Pipeline::start(network.with({.capacity = 4}), network.folder, registry);
  ASSERT_TRUE(started) << started.error().message();
  for (int i = 0; i < 6; ++i) {
    const auto output = (*started)->run(std::vector{number(1)});
    ASSERT_FALSE(output);
    EXPECT_THAT(output.error().message(),
                HasSubstr("output 'out' lies in the host's memory: expected 'cuda:0'"));
  }
}

// in -> far (2 x + 1 on a device, full calls of four) -> b (+ 3) -> out
struct DomainBatches : Domains {
  void build(const std::string& last = "b") {
    network.input("in")
        .stage("a", {"in"}, {"x"}, plus(0))
        .stage("far", {"x"}, {"y"}, twice_and_one())
        .stage(last, {"y"}, {"out"}, plus(3))
        .output("out");
    network.together("far", {4}, [this](Inputs) -> Status {
      ++together;
      return {};
    });
    accelerator->take(network, "far");
    network.plan.stages[1].batch.wait = std::chrono::seconds(600);
  }
  Function twice_and_one() {
    return [this](Inputs in, Outputs to) -> Status {
      if (value_of(*in[0]) == bad) return make_error(Code::kUnknown, "bad frame");
      to[0]->as<float>()[0] = 2 * value_of(*in[0]) + 1;
      return {};
    };
  }
  static float expected(float in) { return 2 * in + 4; }
  // So many at once, then out.
  void run_rounds(int rounds, int frames = 4) {
    for (int round = 0; round < rounds; ++round) {
      for (int i = 0; i < frames; ++i) push();
      while (out < pushed) expect_good(pop(), expected);
    }
  }
  std::atomic<float> bad{-1};
  std::atomic<int> together{0};
};

TEST_F(DomainBatches, OfFramesOneBehindTheOtherCopyNothingOnTheDevice) {
  for (const bool asynchronous : {true, false}) {
    accelerator->asynchronous = asynchronous;
    if (network.plan.stages.empty()) build();
    pushed = out = 0;
    start({.capacity = 8});
    together = 0;
    run_rounds(5);
    EXPECT_EQ(together, 5);
    EXPECT_EQ(memory().from_host, 20);
    EXPECT_EQ(memory().to_host, 20);
    EXPECT_EQ(memory().inside, 0);
    EXPECT_EQ(stats("far").copies, 20U);
    EXPECT_THAT(stats("far").calls, ElementsAre(0, 0, 0, 5));
    pipeline.reset();
    EXPECT_EQ(HiddenPages::count(), 0U);
  }
}

TEST_F(DomainBatches, BetweenStagesOfOneDeviceNothingIsCopied) {
  build();
  network.together("b", {4});
  accelerator->take(network, "b");
  network.plan.stages[2].batch.wait = std::chrono::seconds(600);
  start({.capacity = 8});
  run_rounds(5);
  EXPECT_EQ(stats("far").copies, 20U);  // Its inputs.
  EXPECT_EQ(stats("b").copies, 20U);    // The outputs.
}

// Slots 4, 5, 0 and 1 of six.
TEST_F(DomainBatches, WhatLiesApartIsGatheredOnTheDeviceOrThroughTheHost) {
  build();
  for (const bool within : {true, false}) {
    memory().within = within;
    pushed = out = 0;
    start({.capacity = 6});
    run_rounds(2);
    EXPECT_EQ(memory().inside, within ? 8 : 0);
    EXPECT_EQ(memory().from_host, within ? 8 : 16);
    EXPECT_EQ(memory().to_host, within ? 8 : 16);
    EXPECT_EQ(stats("far").copies, within ? 16U : 24U);
  }
}

TEST_F(DomainBatches, OfReplicasOnTwoDevicesLieInTheMirrorsOfEach) {
  build();
  accelerator->take(network, "far", {0, 1});
  start({.capacity = 16});
  run_rounds(8);
  EXPECT_EQ(memory(0).from_host + memory(1).from_host, 32);
  EXPECT_EQ(stats("far").copies, 64U);
}

TEST_F(DomainBatches, AFailingFrameFailsAlone) {
  build();
  for (const bool asynchronous : {true, false}) {
    accelerator->asynchronous = asynchronous;
    bad = 2;
    pushed = out = 0;
    start({.capacity = 8});
    for (int i = 0; i < 8; ++i) push();
    for (int i = 0; i < 8; ++i) {
      const Output output = pop();
      if (i != 2) {
        expect_good(output, expected);
        continue;
      }
      ASSERT_FALSE(output.ok());
      EXPECT_EQ(output.error().message(), "stage 'far': frame 2: bad frame");
    }
    EXPECT_THAT(stats("far").calls, ElementsAre(4, 0, 0, 1));
  }
}

TEST_F(DomainBatches, ACopyThatFailsConcernsItsFrameOnly) {
  network.input("in").stage("far", {"in"}, {"out"}, doubled()).output("out").together("far", {4});
  accelerator->take(network, "far");
  network.plan.stages[0].batch.wait = std::chrono::seconds(600);
  std::atomic<bool> started{false};
  memory().on_copy = [&](const Tensor& from, const Tensor&) -> Status {
    if (!started) return {};
    const auto* data = from.in_host_memory() ? from.data() : HiddenPages::used(from.data());
    const float bad_value = from.in_host_memory() ? 1 : 12;  // Frame 1 to the device, 6 from it.
    return *static_cast<const float*>(data) == bad_value ? internal_error("the link is down")
                                                         : Status();
  };
  for (const bool asynchronous : {true, false}) {
    accelerator->asynchronous = asynchronous;
    started = false;
    pushed = out = 0;
    start({.capacity = 8});
    started = true;
    for (int i = 0; i < 8; ++i) push();
    for (int i = 0; i < 8; ++i) {
      const Output output = pop();
      if (i == 1) {
        EXPECT_EQ(output.error().message(),
                  "stage 'far': frame 1: tensor 'in': copy from 'host' to 'cuda:0': the link is "
                  "down");
      } else if (i == 6) {
        EXPECT_EQ(output.error().message(),
                  "stage 'far': frame 6: tensor 'out': copy from 'cuda:0' to 'host': the link is "
                  "down");
      } else {
        expect_good(output, [](float in) { return 2 * in; });
      }
    }
  }
}

TEST_F(DomainBatches, ADeviceThatIsLostFailsEachOfTheFrames) {
  for (const bool asynchronous : {true, false}) {
    auto lost = std::make_shared<FakeAccelerator>();
    lost->asynchronous = asynchronous;
    FakeNetwork with;
    with.registry.add(lost);
    with.input("in").stage("far", {"in"}, {"out"}, doubled()).output("out").together("far", {4});
    lost->take(with, "far");
    with.plan.stages[0].batch.wait = std::chrono::seconds(600);
    pipeline = *with.start({.capacity = 8});
    const auto before = lost->ended(0).size();
    pushed = out = 0;
    lost->hold(0, true);
    for (int i = 0; i < 4; ++i) push();
    lost->wait_for(0, 1);
    lost->lose(0);
    while (out < pushed) {
      const Output output = pop();
      ASSERT_FALSE(output.ok());
      EXPECT_EQ(output.error().code, Code::kUnavailable);
      EXPECT_THAT(output.error().message(), HasSubstr("device 'cuda:0' was lost"));
    }
    EXPECT_EQ(lost->ended(0).size(), before + 1);
    pipeline.reset();
    EXPECT_EQ(HiddenPages::count(), 0U);
  }
}

TEST_F(DomainBatches, ACallThatHangsLosesItsFramesAndGetsNewMemory) {
  build();
  network.plan.stages[1].max_run = std::chrono::milliseconds(50);
  network.plan.stages[1].max_left_behind = 1024;
  start({.capacity = 8});
  accelerator->hold(0, true);
  for (int i = 0; i < 4; ++i) push();
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(pop().error().message(),
                HasSubstr(concat("stage 'far': frame ", i, ": the call hangs")));
  }
  accelerator->hold(0, false);
  for (int good = 0; good < 16;) {
    for (int i = 0; i < 4; ++i) push();
    for (int i = 0; i < 4; ++i) {
      const Output output = pop();
      if (output.ok()) {
        expect_good(output, expected);
        ++good;
      } else {
        EXPECT_THAT(output.error().message(), HasSubstr("the call hangs"));
      }
    }
  }
  EXPECT_FALSE(pipeline->closed_by());
}

TEST_F(DomainBatches, OfOneOpenShapeShareACall) {
  const auto some = [](std::int64_t frames) {
    return Type::tensor(DType::kF32, std::vector<Dim>{{frames, "", -1}, {Dim::kOpen, "n", 4}});
  };
  const auto twice = [](Inputs in, Outputs written) -> Status {
    if (!written[0]->set_dims(in[0]->dims())) return internal_error("no room");
    for (std::size_t i = 0; i < in[0]->count(); ++i) {
      written[0]->as<float>()[i] = 2 * in[0]->as<float>()[i];
    }
    return {};
  };
  network.input("in", some(1)).stage("far", {"in"}, {"out"}, twice, 1, {some(1)}).output("out");
  auto& model = network.backend->models["far.b4.onnx"] = network.backend->models.at("far.onnx");
  model.inputs.front().type = model.outputs.front().type = some(4);
  auto& stage = network.plan.stages[0];
  stage.batch = {4, std::chrono::seconds(600)};
  stage.partitions.front().batched = {{4, "stages/far.b4.onnx"}};
  accelerator->take(network, "far");
  for (const bool within : {true, false}) {
    memory().within = within;
    start({.capacity = 8});
    for (const std::int64_t n : {3, 2, 4}) {
      for (int i = 0; i < 4; ++i) {
        Tensor in = Tensor::allocate(DType::kF32, {1, n});
        std::ranges::fill(in.as<float>(), static_cast<float>(10 * n + i));
        ASSERT_TRUE(pipeline->push(std::vector{in}, kLong));
      }
      for (int i = 0; i < 4; ++i) {
        const auto output = **pipeline->pop(kLong);
        ASSERT_TRUE(output.ok()) << output.error().message();
        ASSERT_EQ(output[0].dims(), (std::vector<std::int64_t>{1, n}));
        EXPECT_THAT(output[0].as<float>(), Each(2 * static_cast<float>(10 * n + i)));
      }
    }
    EXPECT_EQ(memory().inside, within ? 24 : 0);
    EXPECT_THAT(stats("far").calls, ElementsAre(0, 0, 0, 3));
  }
}

TEST_F(DomainBatches, WhatACallHasOnTheDeviceIsNotTheHosts) {
  network.input("in").stage("far", {"in"}, {"out"}, doubled()).output("out").together("far", {4});
  accelerator->take(network, "far");
  start({.capacity = 8}, {.max_held = 0});
  // The slots of both edges, and of each tensor the place through which one frame passes.
  EXPECT_EQ(pipeline->memory_bytes(), (2 * 8 + 2) * sizeof(float));
}

// in * scale; on devices
struct DomainParameters : Domains {
  void build(const std::vector<int>& devices) {
    network.folder = folder.path();
    network.parameter("scale", number(2)).input("in");
    network
        .stage("far", {"in", "scale"}, {"out"},
               [](Inputs in, Outputs to) -> Status {
                 to[0]->as<float>()[0] = value_of(*in[0]) * value_of(*in[1]);
                 return {};
               })
        .output("out");
    if (together) network.together("far", {4});
    accelerator->take(network, "far", devices);
  }
  const TemporaryFolder folder;
  bool together = false;
};

TEST_F(DomainParameters, AreCopiedOnceForEachDevice) {
  build({0, 1});
  start();
  run(20, [](float in) { return 2 * in; });
  ASSERT_TRUE(pipeline->set_parameters("", {{"scale", number(3)}}));
  run(20, [](float in) { return 3 * in; });
  EXPECT_EQ(memory(0).from_host + memory(1).from_host, 40 + 2);
  EXPECT_EQ(memory(0).to_host + memory(1).to_host, 40);
}

TEST_F(DomainParameters, AreOneForAllFramesOfACall) {
  together = true;
  build({0});
  start({.capacity = 8});
  accelerator->hold(0, true);
  for (int i = 0; i < 4; ++i) push();
  ASSERT_TRUE(pipeline->set_parameters("far", {{"scale", number(3)}}));
  for (int i = 0; i < 4; ++i) push();
  accelerator->hold(0, false);
  while (out < pushed) expect_good(pop(), [](float in) { return (in < 4 ? 2 : 3) * in; });
}

TEST_F(DomainParameters, ThatCannotBeCopiedChangeNothing) {
  build({0});
  start();
  memory().room = 0;
  const Status refused = pipeline->set_parameters("", {{"scale", number(3)}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "stage 'far': set_parameters: 'scale': 4 bytes in memory 'cuda:0': the device is full");
  run(5, [](float in) { return 2 * in; });
}

// in, s -> far (s + in, on a device) -> y, which is the stream's next s.
struct DomainStates : Domains {
  void build(bool together = false, int streams = 1) {
    network.input("in").state_input("s");
    network.stage("far", {"in", "s"}, {"y"}, sum()).state("y", "s").output("y");
    network.plan.streams.most = streams;
    if (together) network.together("far", {4});
    if (together) network.plan.stages[0].batch.wait = std::chrono::seconds(600);
    accelerator->take(network, "far");
  }
  float step(float value, std::uint64_t stream = 0) {
    EXPECT_TRUE(pipeline->push(std::vector{number(value)}, kLong, {.stream = stream}));
    const auto output = **pipeline->pop(kLong);
    EXPECT_TRUE(output.ok());
    return output.ok() ? value_of(output[0]) : -1;
  }
};

TEST_F(DomainStates, StayOnTheDeviceBetweenFrames) {
  build();
  for (const bool within : {true, false}) {
    memory().within = within;
    start();
    for (int i = 1; i <= 10; ++i) EXPECT_EQ(step(1), static_cast<float>(i));
    // The input, and the output; and the output to the state, on the device or through the host.
    EXPECT_EQ(memory().inside, within ? 10 : 0);
    EXPECT_EQ(memory().from_host, within ? 10 : 20);
    EXPECT_EQ(memory().to_host, within ? 10 : 20);
    EXPECT_EQ(stats("far").copies, within ? 30U : 40U);
  }
}

TEST_F(DomainStates, AreResetSavedAndRestored) {
  build();
  start();
  EXPECT_EQ(step(3), 3);
  const auto saved = pipeline->save_stream(0);
  ASSERT_TRUE(saved) << saved.error().message();
  ASSERT_TRUE(saved->front().second.in_host_memory());
  EXPECT_EQ(value_of(saved->front().second), 3);
  ASSERT_TRUE(pipeline->reset_states());
  EXPECT_EQ(step(1), 1);
  ASSERT_TRUE(pipeline->restore_stream(0, *saved));
  EXPECT_EQ(step(1), 4);
  ASSERT_TRUE(pipeline->reset_stream(0));
  EXPECT_EQ(step(5), 5);
  accelerator->lose(0);
  for (const auto& refused :
       {pipeline->reset_stream(0), pipeline->restore_stream(0, *saved), pipeline->end_stream(0)}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kUnavailable);
    EXPECT_THAT(refused.error().message(),
                HasSubstr("stream 0: state 's': device 'cuda:0' was lost"));
  }
  EXPECT_FALSE(pipeline->save_stream(0));
}

// Else its next frame would read what a stream left there that had the place before.
TEST_F(DomainStates, ThatCannotBeRestoredLeaveNoStreamBehind) {
  build(false, 2);
  std::atomic<bool> fails{false};
  memory().on_copy = [&](const auto&, const auto&) -> Status {
    return fails ? Status(make_error(Code::kInternal, "the copy failed")) : Status();
  };
  start();
  EXPECT_EQ(step(3, 1), 3);
  ASSERT_TRUE(pipeline->end_stream(1));
  fails = true;
  const Status refused = pipeline->restore_stream(2, {{"s", number(7)}});
  fails = false;
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("restore_stream: stream 2: state 's': the copy failed"));
  EXPECT_EQ(step(5, 2), 5);
}

TEST_F(DomainStates, OfSeveralStreamsAreRowsOfACall) {
  build(true, 4);
  memory().within = true;
  start({.capacity = 8});
  for (int round = 1; round <= 5; ++round) {
    for (std::uint64_t stream = 0; stream < 4; ++stream) {
      ASSERT_TRUE(pipeline->push(std::vector{number(static_cast<float>(stream + 1))}, kLong,
                                 {.stream = stream}));
    }
    for (int stream = 0; stream < 4; ++stream) {
      EXPECT_EQ(value_of((**pipeline->pop(kLong))[0]), static_cast<float>(round * (stream + 1)));
    }
  }
  EXPECT_THAT(stats("far").calls, ElementsAre(0, 0, 0, 5));
  EXPECT_EQ(memory().inside, 20);  // The outputs to the states; no rows.
}

TEST_F(DomainStates, OfAFrameThatFailsStay) {
  network.input("in").state_input("s");
  network
      .stage("far", {"in", "s"}, {"y"},
             [](Inputs in, Outputs to) -> Status {
               if (value_of(*in[0]) == 7) return make_error(Code::kUnknown, "bad frame");
               return sum()(in, to);
             })
      .state("y", "s")
      .output("y");
  accelerator->take(network, "far");
  start();
  EXPECT_EQ(step(2), 2);
  ASSERT_TRUE(pipeline->push(std::vector{number(7)}, kLong));
  EXPECT_FALSE((**pipeline->pop(kLong)).ok());
  EXPECT_EQ(step(2), 4);
}

TEST_F(DomainStates, GoOverToAnotherPlan) {
  build();
  start();
  EXPECT_EQ(step(3), 3);
  const auto plan = network.with({.capacity = 4});
  const Status replaced = pipeline->replace(plan, network.folder, network.registry);
  ASSERT_TRUE(replaced) << replaced.error().message();
  EXPECT_EQ(step(3), 6);
}

TEST_F(DomainStates, ThatCannotGoOverLeaveThePlanThatRuns) {
  build();
  std::atomic<bool> fails{false};
  memory().on_copy = [&](const Tensor& from, const auto&) -> Status {
    const bool restored = from.in_host_memory() && value_of(from) == 3;
    return fails && restored ? Status(make_error(Code::kInternal, "the copy failed")) : Status();
  };
  start();
  EXPECT_EQ(step(3), 3);
  fails = true;
  const auto plan = network.with({.capacity = 4});
  const Status refused = pipeline->replace(plan, network.folder, network.registry);
  fails = false;
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("replace: state 's': the copy failed"));
  EXPECT_EQ(step(4), 7);
  ASSERT_TRUE(pipeline->replace(plan, network.folder, network.registry));
  EXPECT_EQ(step(5), 12);
}

TEST_F(DomainStates, AreNotInTheHostsMemory) {
  build(false, 4);
  const auto there =
      memory_ceiling(network.with({.capacity = 4}), {.max_held = 0}, network.registry);
  const auto here = memory_ceiling(network.with({.capacity = 4}), {.max_held = 0});
  EXPECT_EQ(*here - *there, 4 * 2 * sizeof(float));  // Two versions for each stream.
}

// in -> far (2 x, then + 5, both on a device) -> out
struct DomainPartitions : Domains {
  void build(bool together) {
    network.input("in").stage("far", {"in"}, {"between"}, doubled());
    add_partition(1);
    if (together) {
      network.together("far", {4});
      add_partition(4);
    }
    network.plan.stages[0].outputs = {"out"};
    network.output("out");
    accelerator->take(network, "far");
  }
  void add_partition(std::int64_t frames) {
    const Type type = Type::tensor(DType::kF32, std::vector<std::int64_t>{frames});
    const auto file = frames == 1 ? std::string("far_2.onnx") : concat("far_2.b", frames, ".onnx");
    network.backend->models[file] = {
        {{"between", type}}, {{"out", type}}, [](Inputs in, Outputs to) -> Status {
          for (std::size_t i = 0; i < in[0]->count(); ++i) {
            to[0]->as<float>()[i] = in[0]->as<float>()[i] + 5;
          }
          return {};
        }};
    auto& stage = network.plan.stages[0];
    if (frames > 1) {
      stage.partitions.back().batched.push_back({static_cast<int>(frames), "stages/" + file});
      return;
    }
    network.state_input("out");  // Makes the tensor known.
    stage.partitions.push_back({"fake", "stages/" + file, {"between"}, {"out"}, {}});
  }
};

TEST_F(DomainPartitions, HandOnWhatIsBetweenThemOnTheDevice) {
  build(false);
  for (const bool asynchronous : {true, false}) {
    accelerator->asynchronous = asynchronous;
    pushed = out = 0;
    start();
    run(20, [](float in) { return 2 * in + 5; });
    EXPECT_EQ(stats("far").copies, 40U);
  }
}

TEST_F(DomainPartitions, ComputeSeveralFramesInACall) {
  build(true);
  network.plan.stages[0].batch.wait = std::chrono::seconds(600);
  start({.capacity = 8});
  for (int i = 0; i < 8; ++i) push();
  while (out < pushed) expect_good(pop(), [](float in) { return 2 * in + 5; });
  EXPECT_EQ(stats("far").copies, 16U);
  EXPECT_THAT(stats("far").calls, ElementsAre(0, 0, 0, 2));
}

struct Refused : Domains {
  void expect(const std::string& sentence) {
    const Status started = try_start();
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, Code::kUnimplemented);
    EXPECT_EQ(started.error().message(),
              "stage 'far': " + sentence +
                  ", as it computes in memory 'cuda:0', not the host's; leave it out of the plan, "
                  "or run it on CPUs");
  }
};

TEST_F(Refused, Items) {
  const Type list = Type::tensor(DType::kF32, std::vector<Dim>{{3, "", -1}, {1, "", -1}});
  network.input("in", list).stage("far", {"in"}, {"out"}, doubled(), 1, {list}).output("out");
  network.plan.stages[0].each = {"in"};
  accelerator->take(network, "far");
  expect("each: expected none, found 'in'");
}

TEST_F(Refused, StatesOfSeveralMemories) {
  network.input("in")
      .state_input("old")
      .stage("far", {"in", "old"}, {"out", "new"},
             [](Inputs in, Outputs to) -> Status {
               for (Tensor* each : to) each->as<float>()[0] = value_of(*in[0]) + value_of(*in[1]);
               return {};
             })
      .stage("here", {"out", "old"}, {"more"}, sum())
      .state("new", "old")
      .output("more");
  accelerator->take(network, "far");
  expect("state 'old': expected that nobody reads or writes it in another memory, found one");
}

TEST_F(Refused, PartitionsInSeveralMemories) {
  build_chain();
  network.plan.tensors.push_back({"between", scalar()});
  auto& stage = network.plan.stages[1];
  stage.partitions.push_back(stage.partitions.front());
  stage.partitions.front().outputs = {"between"};
  stage.partitions.back().inputs = {"between"};
  stage.partitions.back().backend = "fake";
  expect(
      "partition 2, of backend 'fake': expected that it computes in the same memory as the "
      "others, found 'host'");
}

TEST_F(Refused, TensorsWithoutABound) {
  const Type any = Type::tensor(DType::kF32, std::vector<Dim>{{Dim::kOpen, "n", Dim::kOpen}});
  network.input("in").stage("far", {"in"}, {"out"}, doubled(), 1, {any}).output("out");
  accelerator->take(network, "far");
  expect("tensor 'out': expected a shape with a bound, found f32[n]");
}

}  // namespace
}  // namespace penstock::pipeline::domains_test
