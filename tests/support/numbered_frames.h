// NumberedFrames: a pipeline whose n-th frame is the number n, for tests.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "penstock/pipeline/pipeline.h"
#include "tests/support/fake_backend.h"

namespace penstock::pipeline {

/// The network has one input; what comes out is popped in order.
struct NumberedFrames : ::testing::Test {
  static constexpr std::chrono::nanoseconds kLong = std::chrono::seconds(60);

  void push(int frames, const FrameOptions& options = {}) {
    for (int i = 0; i < frames; ++i) {
      ASSERT_TRUE(pipeline->push(std::vector{testing::number(static_cast<float>(pushed++))}, kLong,
                                 options));
    }
  }
  Output pop() {
    auto popped = pipeline->pop(kLong);
    EXPECT_TRUE(popped && *popped);
    EXPECT_EQ((*popped)->number(), static_cast<FrameNumber>(out++));
    return **std::move(popped);
  }
  /// Each is `value` of its number.
  void pop_good(int frames, const std::function<float(float)>& value) {
    for (int i = 0; i < frames; ++i) {
      const Output output = pop();
      ASSERT_TRUE(output.ok()) << output.error().message();
      EXPECT_EQ(testing::value_of(output[0]), value(static_cast<float>(output.number())));
    }
  }
  void TearDown() override { pipeline.reset(); }  // Before the peers of a test.

  testing::FakeNetwork network;
  std::unique_ptr<Pipeline> pipeline;
  int pushed = 0, out = 0;
};

}  // namespace penstock::pipeline
