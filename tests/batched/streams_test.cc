// Streams that share the calls of a network split in two replicas, each with states of its own.
#include <array>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/graph/test_support.h"
#include "penstock/session/session.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

constexpr int kStreams = 6;
constexpr int kRounds = 8;

/// y = x + s / 2, which the next frame of the stream reads as s.
constexpr const char* kHalved = R"(<ir_version: 8, opset_import: ["" : 17]> net
    (float[1,2] x, float[1,2] s) => (float[1,2] y, float[1,2] t) <float[1,2] half = {0.5, 0.5}>
    { [half] h = Mul(s, half) [add] y = Add(x, h) [copy] t = Identity(y) })";

Tensor two(float first, float second) {
  Tensor tensor = Tensor::allocate(DType::kF32, {1, 2});
  tensor.as<float>()[0] = first;
  tensor.as<float>()[1] = second;
  return tensor;
}

class SplitStreamsTest : public ::testing::Test {
 protected:
  /// In one stage of two replicas, each of which takes up to three frames in a call.
  Result<plan::Package> pack(const plan::StreamOptions& stream) {
    partition::SplitOptions options;
    options.replicas = 2;
    options.batches[""] = {.frames = 3};
    return pack_model(graph_, options, backends_, {{"t", "s", ""}}, stream);
  }

  const backend::Registry backends_ = backend::Registry::load();
  const graph::Graph graph_ = graph::import_text(kHalved);
};

TEST_F(SplitStreamsTest, EachHasAReplicaThatWritesItsState) {
  const auto package = pack({.streams = plan::Streams{kStreams, false}});
  ASSERT_TRUE(package) << package.error().message();
  EXPECT_EQ(package->plan.stages.at(0).devices.size(), 2U);
  EXPECT_EQ(package->plan.streams.most, kStreams);
  const auto started =
      pipeline::Pipeline::start(package->plan, package->folder, backends_, {.in_flight = 16});
  ASSERT_TRUE(started) << started.error().message();
  auto& pipeline = **started;
  std::array<float, kStreams> states{};
  for (int round = 0; round < kRounds; ++round) {
    for (int s = 0; s < kStreams; ++s) {
      const auto x = static_cast<float>(10 * s + round);
      const auto pushed = pipeline.push(std::array{two(x, -x)}, pipeline::kForever,
                                        {.stream = static_cast<std::uint64_t>(s)});
      ASSERT_TRUE(pushed) << pushed.error().message();
    }
    for (int s = 0; s < kStreams; ++s) {
      const auto output = pipeline.pop();
      ASSERT_TRUE(output && *output && (*output)->ok());
      auto& state = states.at(static_cast<std::size_t>(s));
      state = static_cast<float>(10 * s + round) + state / 2;
      EXPECT_EQ((**output)[0].as<float>()[0], state) << "stream " << s << ", round " << round;
      EXPECT_EQ((**output)[0].as<float>()[1], -state);
    }
  }
}

TEST_F(SplitStreamsTest, OneStreamHasOneReplica) {
  for (const auto& stream : {plan::StreamOptions(), {.streams = plan::Streams{1, false}}}) {
    const auto package = pack(stream);
    ASSERT_FALSE(package);
    EXPECT_EQ(package.error().code, Code::kInvalidArgument);
    EXPECT_THAT(package.error().message(),
                HasSubstr("stage 'stage0' writes it: expected one replica, found 2; of several "
                          "streams each would have one of them"));
  }
}

TEST_F(SplitStreamsTest, WhatIsGivenToEdgesStaysBesideStates) {
  const auto package = pack({.input_policy = plan::FullPolicy::kDropOldest,
                             .capacity = 5,
                             .streams = plan::Streams{kStreams, true}});
  ASSERT_TRUE(package) << package.error().message();
  for (const auto& edge : package->plan.edges) EXPECT_EQ(edge.capacity, 5);
  EXPECT_EQ(package->plan.edges.front().policy, plan::FullPolicy::kDropOldest);
  EXPECT_EQ(package->plan.streams, (plan::Streams{kStreams, true}));
}

}  // namespace
}  // namespace penstock
