// The backend `remote` over real sockets: a pipeline with a stage at a server of this process.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/pipeline/pipeline.h"
#include "tests/support/fake_backend.h"
#include "tests/support/fake_server.h"
#include "tests/support/numbered_frames.h"

namespace penstock::pipeline {
namespace {

using ::testing::HasSubstr;
using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

// in -> near (here: x + 1) -> far (at a server: 2 x) -> out
struct Remote : NumberedFrames {
  Remote() {
    EXPECT_TRUE(network.registry.add_plugin(PENSTOCK_REMOTE_PLUGIN));
    network.input("in")
        .stage("near", {"in"}, {"x"}, unary([](float x) { return x + 1; }))
        .stage("far", {"x"}, {"y"}, unary([](float) { return 0.0F; }))
        .output("y");
    auto& partition = far().partitions.front();
    partition.backend = plan::kRemoteBackend;
    partition.model.clear();
    partition.served = {server.address(), "twice", ""};
    set_patience("60000");
    far().devices = {at(server)};
    network.finish();
  }

  /// Long but where a server hangs, as a busy machine may let any server wait.
  void set_patience(const char* ms) { far().partitions.front().options["patience_ms"] = ms; }

  static device::Device at(const FakeServer& server) {
    return *device::parse_device("oip://" + server.address());
  }
  plan::Stage& far() { return network.plan.stages[1]; }

  Status try_start(const Options& options = {}) {
    auto started = network.start({.capacity = 16}, options);
    if (!started) return std::move(started).error();
    pipeline = *std::move(started);
    return {};
  }
  void start() {
    const Status started = try_start();
    ASSERT_TRUE(started) << started.error().message();
  }
  void pop_good(int frames) {
    NumberedFrames::pop_good(frames, [](float x) { return 2 * (x + 1); });
  }

  FakeServer server;
};

TEST_F(Remote, RunsAStageAtAServer) {
  start();
  for (int round = 0; round < 4; ++round) {
    push(16);
    pop_good(16);
  }
}

TEST_F(Remote, HasSeveralCallsInFlightWithOneThread) {
  start();
  server.hold(true);
  push(8);
  server.wait_for_calls(8);
  server.hold(false);
  pop_good(8);
}

TEST_F(Remote, WritesAnswersIntoTheSlots) {
  start();
  push(16);
  pop_good(16);
  const auto stats = pipeline->stats();
  EXPECT_EQ(stats.stages[1].copies, 16U);
  EXPECT_EQ(stats.stages[1].allocations, 0U);
}

TEST_F(Remote, RefusesAModelOfAnotherType) {
  server.on_metadata = [](auto& metadata) { metadata.mutable_inputs(0)->set_datatype("INT64"); };
  const Status started = try_start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Code::kInvalidArgument);
  EXPECT_THAT(started.error().message(),
              HasSubstr("tensor 'x': the plan says f32[1], model 'oip://" + server.address() +
                        "/twice' says i64[?]"));
}

TEST_F(Remote, RefusesAModelOfOtherNames) {
  server.on_metadata = [](auto& metadata) { metadata.mutable_outputs(0)->set_name("z"); };
  const Status started = try_start();
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message(), HasSubstr("expected an output 'y', found 'z'"));
}

TEST_F(Remote, RefusesAStandbyServerWithAnotherModelOfThatName) {
  FakeServer second;
  second.on_metadata = [](auto& metadata) { metadata.mutable_outputs(0)->set_datatype("INT8"); };
  far().standby = {at(second)};
  const Status started = try_start();
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message(),
              HasSubstr("is another than on the first device: expected x f32[?], y f32[?], found "
                        "x f32[?], y i8[?]"));
}

TEST_F(Remote, AsksTheServerForNothingButFrames) {
  start();
  EXPECT_EQ(server.infers, 0);
}

TEST_F(Remote, SaysWhereNobodyListens) {
  server.stop();
  const Status started = try_start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Code::kUnavailable);
  EXPECT_EQ(started.error().find(Where::kPeer)->name, server.address());
}

TEST_F(Remote, RefusesAnOptionThatItDoesNotKnow) {
  const Status started = try_start({.backend_options = {{"remote", {{"speed", "high"}}}}});
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message(), HasSubstr("option 'speed': expected tls, root_file"));
}

TEST_F(Remote, AnErrorOfTheServerIsTheFramesAlone) {
  start();
  server.on_infer = [count = std::make_shared<std::atomic<int>>(0)](const auto&, auto&) {
    return ++*count == 2 ? ::grpc::Status(::grpc::StatusCode::INTERNAL, "it broke")
                         : ::grpc::Status::OK;
  };
  for (int i = 0; i < 4; ++i) {
    push(1);
    const Output output = pop();
    EXPECT_EQ(output.ok(), i != 1);
    if (i == 1) {
      EXPECT_THAT(output.error().message(), HasSubstr("it broke"));
    }
  }
}

TEST_F(Remote, AFrameEndsAtItsDeadline) {
  start();
  server.hold(true);
  push(1, {.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(30)});
  EXPECT_EQ(pop().error().code, Code::kDeadlineExceeded);
  server.hold(false);
}

TEST_F(Remote, FramesOfAServerThatDiesAreUnavailableAndNameIt) {
  start();
  server.hold(true);
  push(4);
  server.wait_for_calls(4);
  server.stop();
  for (int i = 0; i < 4; ++i) {
    const Output output = pop();
    EXPECT_EQ(output.error().code, Code::kUnavailable);
    EXPECT_EQ(output.error().find(Where::kPeer)->name, server.address());
  }
  server.hold(false);
  server.restart();
  for (bool good = false; !good;) {
    push(1);
    good = pop().ok();
  }
}

TEST_F(Remote, FramesOfAServerThatHangsAreRunByAnother) {
  FakeServer second;
  far().standby = {at(second)};
  far().partitions.front().idempotent = true;
  set_patience("10000");  // The one that stands by must not count as lost where it gets no CPU.
  start();
  server.hang(true);
  push(16);
  pop_good(16);
  EXPECT_EQ(second.infers, 16);
  server.hang(false);
  const int before = server.infers;
  while (server.infers == before) {
    push(1);
    pop_good(1);
  }
}

// The first one is larger than the server takes, which ends the stream and all that are in it.
TEST_F(Remote, FramesOfAStreamThatAnotherOneBreaksAreRunAgainWhereTheyMayBe) {
  far().partitions.front().idempotent = true;
  start();
  const ::grpc::Status too_large(::grpc::StatusCode::RESOURCE_EXHAUSTED, "it is too large");
  const auto is_too_large = [](const auto& request) {
    float x = 0;
    std::memcpy(&x, request.raw_input_contents(0).data(), sizeof x);
    return x == 1;
  };
  server.on_streamed = [&](const auto& request) {
    if (!is_too_large(request)) return ::grpc::Status::OK;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // The others are on their way.
    return too_large;
  };
  server.on_infer = [&](const auto& request, auto&) {
    return is_too_large(request) ? too_large : ::grpc::Status::OK;
  };
  push(4);
  const Output first = pop();
  EXPECT_EQ(first.error().code, Code::kResourceExhausted);
  EXPECT_THAT(first.error().message(), HasSubstr("it is too large"));
  pop_good(3);
}

TEST_F(Remote, CancelDoesNotWaitForTheServer) {
  start();
  server.hold(true);
  push(4);
  server.wait_for_calls(4);
  pipeline->cancel();
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(pop().ok());
  pipeline.reset();
  server.hold(false);
}

}  // namespace
}  // namespace penstock::pipeline
