// Stand-by devices and replicas: what becomes of the frames of a device that is lost.
#include <algorithm>
#include <filesystem>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "penstock/pipeline/pipeline.h"
#include "tests/support/fake_remote.h"
#include "tests/support/numbered_frames.h"

namespace penstock::pipeline::standby_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

device::Device device(const std::string& text) {
  return *device::parse_device(text);
}

// in -> far (at the first peer: 2 x) -> out
struct Standby : NumberedFrames {
  Standby() {
    network.registry.add(remote);
    network.input("in")
        .stage("far", {"in"}, {"y"}, unary([](float x) { return 2 * x; }))
        .stage("near", {"y"}, {"out"}, unary([](float x) { return x + 1; }))
        .output("out");
    far().devices = {device("first:1/cpu:0")};
    network.finish();
  }

  plan::Stage& far() { return network.plan.stages[0]; }
  void serve() {
    auto& partition = far().partitions.front();
    partition.backend = plan::kRemoteBackend;
    partition.model.clear();
    partition.served = {"first:1", "far", ""};
    far().devices = {device("oip://first:1")};
  }

  void start(const Options& options = {}) {
    auto started = network.start({.capacity = 8}, options);
    ASSERT_TRUE(started) << started.error().message();
    pipeline = *std::move(started);
  }
  /// Whether a frame came out, which must be past its deadline.
  bool came_out_late() {
    auto popped = pipeline->try_pop();
    if (!popped) return false;
    EXPECT_TRUE(*popped);
    EXPECT_EQ((*popped)->number(), static_cast<FrameNumber>(out++));
    EXPECT_EQ((*popped)->error().code, Code::kDeadlineExceeded);
    return true;
  }
  void pop_good(int frames) {
    NumberedFrames::pop_good(frames, [](float x) { return 2 * x + 1; });
  }

  std::shared_ptr<FakeRemote> remote = std::make_shared<FakeRemote>(network);
};

TEST_F(Standby, IsAskedForTheBackendOfItsStage) {
  far().standby = {device("second:1/cpu:0-1")};
  start({.backend_options = {{"remote", {{"token_file", "t"}}}}});
  const auto asked = remote->asked("second:1");
  EXPECT_EQ(asked.backend, "fake");
  EXPECT_EQ(asked.options.at("token_file"), "t");
  EXPECT_EQ(device::to_string(asked.device), "second:1/cpu:0-1");
}

TEST_F(Standby, ComputesNothingWhileTheStagesOwnDeviceIsThere) {
  far().standby = {device("second:1/cpu:0")};
  start();
  push(8);
  pop_good(8);
  EXPECT_THAT(remote->computed("second:1"), IsEmpty());
}

TEST_F(Standby, IsNoReplica) {
  far().standby = {device("second:1/cpu:0")};
  start();
  const auto stats = pipeline->stats().stages[0];
  EXPECT_EQ(stats.replicas, 1);  // Over which the load of the stage is told.
  EXPECT_EQ(stats.instances.size(), 2U);
}

TEST_F(Standby, TakesTheFramesInFlightOfALostDevice) {
  far().standby = {device("second:1/cpu:0")};
  start();
  remote->hold("first:1", true);
  push(8);
  remote->wait_for_calls("first:1", 4);
  remote->lose("first:1");
  pop_good(8);
  push(4);
  pop_good(4);
  EXPECT_THAT(remote->computed("first:1"), IsEmpty());
  EXPECT_EQ(remote->computed("second:1").size(), 12U);
}

// The edge has room for one frame: that behind the lost one waits for it at the other device.
TEST_F(Standby, ADeviceThatWaitsForRoomTakesTheFrameForWhichItWaits) {
  far().devices = {device("first:1/cpu:0"), device("second:1/cpu:0")};
  remote->contexts = 1;
  for (auto& edge : network.plan.edges) edge.capacity = edge.from == 0 ? 1 : 8;
  pipeline = *network.start();
  remote->hold("first:1", true);
  remote->hold("second:1", true);
  push(2);
  while (remote->calls("first:1") + remote->calls("second:1") == 0) std::this_thread::yield();
  const std::string lost = remote->calls("first:1") > 0 ? "first:1" : "second:1";
  remote->lose(lost);
  remote->hold(lost == "first:1" ? "second:1" : "first:1", false);
  pop_good(2);
}

TEST_F(Standby, GivesTheStageBackToADeviceThatReturns) {
  far().standby = {device("second:1/cpu:0")};
  start();
  remote->lose("first:1");
  push(4);
  pop_good(4);
  EXPECT_EQ(remote->computed("second:1").size(), 4U);
  remote->restore("first:1");
  while (remote->computed("first:1").empty()) {
    push(1);
    pop_good(1);
  }
}

TEST_F(Standby, MayBeACpuOfThisMachine) {
  far().standby = {device("cpu:0")};
  start();
  remote->hold("first:1", true);
  push(6);
  remote->wait_for_calls("first:1", 4);
  remote->lose("first:1");
  pop_good(6);
}

// It is taken once it is there.
TEST_F(Standby, AStageStartsWithoutItsOwnDevice) {
  far().standby = {device("cpu:0")};
  remote->set_absent("first:1", true);
  std::vector<std::string> warnings;
  start({.warn = [&](const std::string& said) { warnings.push_back(said); }});
  EXPECT_THAT(warnings,
              Contains(AllOf(HasSubstr("stage 'far': device 'first:1/cpu:0' is not there"),
                             HasSubstr("nobody listens there"))));
  push(8);
  pop_good(8);
  remote->set_absent("first:1", false);
  while (remote->computed("first:1").empty()) {
    push(1);
    pop_good(1);
  }
}

TEST_F(Standby, AStageStartsWithoutADeviceThatStandsByForIt) {
  far().standby = {device("second:1/cpu:0")};
  remote->set_absent("second:1", true);
  start();
  push(8);
  pop_good(8);
  remote->lose("first:1");
  remote->set_absent("second:1", false);
  while (remote->computed("second:1").empty()) {
    push(1);
    static_cast<void>(pop());
  }
}

TEST_F(Standby, AStageStartsWithoutAReplica) {
  serve();
  far().devices = {device("oip://first:1"), device("oip://second:1")};
  remote->set_absent("first:1", true);
  start();
  push(8);
  pop_good(8);
  remote->set_absent("first:1", false);
  while (remote->computed("first:1").empty()) {
    push(1);
    pop_good(1);
  }
}

TEST_F(Standby, AStageWithoutAnyDeviceDoesNotStart) {
  far().standby = {device("second:1/cpu:0")};
  remote->set_absent("first:1", true);
  remote->set_absent("second:1", true);
  const auto started = network.start({.capacity = 8}, {});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Code::kUnavailable);
  EXPECT_THAT(started.error().message(), HasSubstr("nobody listens there"));
}

TEST_F(Standby, ThatIsLostTooLeavesFramesUnavailable) {
  far().standby = {device("second:1/cpu:0")};
  start();
  remote->hold("first:1", true);
  remote->hold("second:1", true);
  push(4);
  remote->wait_for_calls("first:1", 4);
  remote->lose("second:1");
  remote->lose("first:1");
  for (int i = 0; i < 4; ++i) {
    const Output output = pop();
    ASSERT_FALSE(output.ok());
    EXPECT_EQ(output.error().code, Code::kUnavailable);
    EXPECT_NE(output.error().find(Where::kPeer), nullptr);
  }
  push(1);
  EXPECT_EQ(pop().error().code, Code::kUnavailable);
  remote->restore("second:1");
  remote->hold("second:1", false);
  push(1);  // Who refuses it wakes the other, so that it sees that its device is back.
  static_cast<void>(pop());
  ASSERT_TRUE(remote->wait_until_found("second:1", std::chrono::seconds(60)));
  while (remote->computed("second:1").empty()) {
    push(1);
    static_cast<void>(pop());
  }
}

// Nobody runs them again, and yet none of them says `unavailable`.
TEST_F(Standby, FramesInFlightThatAreLostOnceTheyAreGivenUpAreCancelled) {
  far().standby = {device("second:1/cpu:0")};
  start();
  remote->hold("first:1", true);
  push(6);
  remote->wait_for_calls("first:1", 4);
  pipeline->give_up();
  remote->lose("first:1");
  for (int i = 0; i < 6; ++i) EXPECT_EQ(pop().outcome(), Outcome::kCancelled);
}

TEST_F(Standby, NothingStandsByFramesAreUnavailableUntilThePeerReturns) {
  start();
  remote->hold("first:1", true);
  push(2);
  remote->wait_for_calls("first:1", 2);
  remote->lose("first:1");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(pop().error().code, Code::kUnavailable);
  remote->restore("first:1");
  remote->hold("first:1", false);
  while (remote->computed("first:1").empty()) {
    push(1);
    static_cast<void>(pop());
  }
}

TEST_F(Standby, AReplicaTakesTheFramesOfAnother) {
  far().devices = {device("first:1/cpu:0"), device("second:1/cpu:0")};
  start();
  remote->hold("first:1", true);
  remote->hold("second:1", true);
  push(8);
  remote->wait_for_calls("first:1", 4);
  remote->wait_for_calls("second:1", 4);
  remote->lose("first:1");
  remote->hold("second:1", false);
  pop_good(8);
  push(8);
  pop_good(8);
  EXPECT_THAT(remote->computed("first:1"), IsEmpty());
}

TEST(StandbyParameters, AFrameThatReturnsIsComputedWithThoseOfItsPush) {
  FakeNetwork network;
  const auto remote = std::make_shared<FakeRemote>(network);
  remote->contexts = 1;
  network.folder = ::testing::TempDir() + concat("penstock_standby.", ::getpid());
  network.registry.add(remote);
  network.input("in").parameter("w", number(2));
  network.stage("far", {"in", "w"}, {"out"}, [](Inputs in, Outputs out) -> Status {
    out[0]->as<float>()[0] = value_of(*in[0]) * value_of(*in[1]);
    return {};
  });
  network.plan.stages[0].devices = {device("first:1/cpu:0"), device("second:1/cpu:0")};
  network.output("out").finish();
  auto started = network.start({.capacity = 8});
  ASSERT_TRUE(started) << started.error().message();
  auto& pipeline = **started;
  for (const char* peer : {"first:1", "second:1"}) remote->hold(peer, true);
  const auto push = [&](float value) {
    ASSERT_TRUE(pipeline.push(std::vector{number(value)}, NumberedFrames::kLong));
  };
  push(10);
  while (remote->calls("first:1") + remote->calls("second:1") == 0) std::this_thread::yield();
  const bool first = remote->calls("first:1") > 0;
  ASSERT_TRUE(pipeline.set_parameters("", {{"w", number(3)}}));
  push(10);
  const char* other = first ? "second:1" : "first:1";
  remote->wait_for_calls(other, 1);
  remote->hold(other, false);
  while (remote->computed(other).empty()) std::this_thread::yield();  // With what is newest.
  remote->lose(first ? "first:1" : "second:1");
  for (const float expected : {20.F, 30.F}) {
    const auto popped = pipeline.pop(NumberedFrames::kLong);
    ASSERT_TRUE(popped && *popped && (*popped)->ok());
    EXPECT_EQ(value_of((**popped)[0]), expected);
  }
  started->reset();
  std::filesystem::remove_all(network.folder);
}

TEST_F(Standby, AFrameThatIsRefusedIsTriedAFewTimesAndNoMore) {
  far().standby = {device("second:1/cpu:0")};
  start();
  remote->refuse("first:1", 1);
  push(1);
  pop_good(1);
  remote->refuse("first:1", 1 << 20);
  remote->refuse("second:1", 1 << 20);
  push(1);
  EXPECT_EQ(pop().error().code, Code::kUnavailable);
}

TEST_F(Standby, AServersModelIsNotRunAgain) {
  serve();
  far().standby = {device("oip://second:1")};
  start();
  remote->hold("first:1", true);
  push(4);
  remote->wait_for_calls("first:1", 4);
  remote->lose("first:1");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(pop().error().code, Code::kUnavailable);
  push(4);  // Nobody has begun these.
  pop_good(4);
  EXPECT_EQ(remote->asked("second:1").served, "oip://first:1/far");
}

TEST_F(Standby, AServersModelIsRunAgainWhereThePlanSaysThatItMay) {
  serve();
  far().partitions.front().idempotent = true;
  far().standby = {device("oip://second:1")};
  start();
  remote->hold("first:1", true);
  push(4);
  remote->wait_for_calls("first:1", 4);
  remote->lose("first:1");
  pop_good(4);
}

TEST_F(Standby, TheOnlyServerThatIsThereRunsAFrameAgainWhereThePlanSaysThatItMay) {
  serve();
  far().partitions.front().idempotent = true;
  start();
  remote->refuse("first:1", 1);
  push(1);
  pop_good(1);
  remote->refuse("first:1", 1 << 20);
  push(1);
  EXPECT_EQ(pop().error().code, Code::kUnavailable);
}

TEST_F(Standby, AFrameOverItsTimeIsNotRunAgain) {
  far().standby = {device("second:1/cpu:0")};
  start();
  remote->hold("first:1", true);
  // As late as it takes for its call to begin before.
  auto deadline = std::chrono::steady_clock::now();
  for (auto age = std::chrono::milliseconds(1); remote->calls("first:1") == 0; age *= 2) {
    deadline = std::chrono::steady_clock::now() + age;
    push(1, {.deadline = deadline});
    while (remote->calls("first:1") == 0 && !came_out_late()) std::this_thread::yield();
  }
  while (std::chrono::steady_clock::now() <= deadline) std::this_thread::yield();
  remote->lose("first:1");
  EXPECT_EQ(pop().error().code, Code::kDeadlineExceeded);
  EXPECT_THAT(remote->computed("second:1"), IsEmpty());
}

TEST_F(Standby, CloseWaitsForFramesThatAreRunAgain) {
  far().standby = {device("second:1/cpu:0")};
  start();
  remote->hold("first:1", true);
  push(4);
  remote->wait_for_calls("first:1", 4);
  pipeline->close();
  remote->lose("first:1");
  pop_good(4);
  EXPECT_TRUE(pipeline->drain(kLong));
}

TEST_F(Standby, CancelEndsFramesThatNobodyTookAgain) {
  far().standby = {device("second:1/cpu:0")};
  start();
  remote->hold("first:1", true);
  remote->hold("second:1", true);
  push(8);
  remote->wait_for_calls("first:1", 4);
  remote->lose("first:1");
  remote->wait_for_calls("second:1", 4);
  pipeline->cancel();
  for (int i = 0; i < 8; ++i) EXPECT_FALSE(pop().ok());
}

TEST_F(Standby, OfAFunctionIsRefused) {
  network.functions.push_back({});
  far().partitions.front().backend = plan::kFunctionBackend;
  far().partitions.front().options["function"] = "f";
  far().devices = {device("cpu:0")};
  far().standby = {device("cpu:1")};
  const auto started = network.start();
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message(), HasSubstr("a function is never run again"));
}

// out[n] = in[n] + out[n - 1], at a peer.
struct StandbyWithState : Standby {
  StandbyWithState() {
    network.plan = {};
    network.state_input("before")
        .input("in")
        .stage("sum", {"in", "before"}, {"after"},
               [](Inputs in, Outputs to) -> Status {
                 to[0]->as<float>()[0] = value_of(*in[0]) + value_of(*in[1]);
                 return {};
               })
        .output("after")
        .state("after", "before");
    network.plan.stages[0].devices = {device("first:1/cpu:0")};
    network.plan.stages[0].standby = {device("second:1/cpu:0")};
    network.finish();
  }
};

TEST_F(StandbyWithState, GoesOnFromTheStateThatTheCallerKeeps) {
  start();
  float sum = 0;
  const auto add = [&](int frames) {
    const int first = pushed;
    push(frames);
    for (int i = first; i < first + frames; ++i) {
      const Output output = pop();
      ASSERT_TRUE(output.ok()) << output.error().message();
      sum += static_cast<float>(i);
      EXPECT_EQ(value_of(output[0]), sum);
    }
  };
  add(8);
  remote->hold("first:1", true);
  push(4);
  remote->wait_for_calls("first:1", 1);
  remote->lose("first:1");
  for (int i = 8; i < 12; ++i) {
    sum += static_cast<float>(i);
    const Output output = pop();
    ASSERT_TRUE(output.ok()) << output.error().message();
    EXPECT_EQ(value_of(output[0]), sum);
  }
  remote->restore("first:1");
  remote->hold("first:1", false);
  for (int round = 0; round < 20; ++round) add(8);
}

// The state goes on through a frame that another stage failed, at the other device as at the lost.
TEST_F(StandbyWithState, GoesOnThroughAFrameThatFailedBeside) {
  network
      .stage("beside", {"in"}, {"other"},
             [](Inputs in, Outputs) -> Status {
               if (value_of(*in[0]) == 1) return invalid_argument("planted");
               return {};
             })
      .output("other");
  network.plan.edges.clear();
  start();
  push(1);
  EXPECT_TRUE(pop().ok());
  remote->hold("first:1", true);
  push(1);
  remote->wait_for_calls("first:1", 1);
  while (pipeline->stats().stages[1].errors == 0) std::this_thread::yield();
  remote->lose("first:1");
  EXPECT_THAT(pop().error().message(), HasSubstr("planted"));
  push(1);
  const Output output = pop();
  ASSERT_TRUE(output.ok()) << output.error().message();
  EXPECT_EQ(value_of(output[0]), 0 + 1 + 2);
}

// Peers come and go under load, in a random order: each frame comes out once, in order.
TEST_F(Standby, EveryFrameComesOutOnceWhateverThePeersDo) {
  far().devices = {device("first:1/cpu:0"), device("second:1/cpu:0")};
  far().standby = {device("third:1/cpu:0")};
  start();
  constexpr int kFrames = 3000;
  std::thread pusher([&] { push(kFrames); });
  std::thread chaos([&] {
    const char* const peers[] = {"first:1", "second:1", "third:1"};
    for (unsigned i = 0, random = 1; i < 300; ++i) {
      random = random * 1103515245 + 12345;
      const std::string peer = peers[(random >> 16) % 3];
      (random >> 20) % 2 == 0 ? remote->lose(peer) : remote->restore(peer);
      std::this_thread::yield();
    }
    for (const auto* peer : peers) remote->restore(peer);
  });
  int good = 0;
  for (int i = 0; i < kFrames; ++i) {
    const Output output = pop();
    if (output.ok()) {
      ++good;
      EXPECT_EQ(value_of(output[0]), 2 * static_cast<float>(output.number()) + 1);
    } else {
      EXPECT_EQ(output.error().code, Code::kUnavailable) << output.error().message();
    }
  }
  pusher.join();
  chaos.join();
  EXPECT_GT(good, 0);
  EXPECT_EQ(pipeline->stats().popped, static_cast<std::uint64_t>(kFrames));
}

}  // namespace
}  // namespace penstock::pipeline::standby_test
