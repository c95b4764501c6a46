// What verify() refuses before anything runs.
#include "penstock/session/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/measure/verify.h"

namespace penstock {
namespace {

TEST(VerifyTest, FramesOfTheWrongCountAreRefused) {
  Opened opened;
  opened.package.plan.inputs = {{"x", Type::tensor(DType::kF32, std::vector<std::int64_t>{1})}};
  const auto report = verify(opened, {.given = {{}}}, {}, {});
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message(), ::testing::HasSubstr("frame 0: expected 1 value ("));
}

TEST(VerifyTest, NothingIsRightBeforeAFrameWasCompared) {
  measure::VerifyReport report;
  report.verdict.outputs.emplace_back();
  report.interrupted = true;
  EXPECT_EQ(report.finding(), measure::Finding::kInconclusive);
  report.frames = 1;
  EXPECT_EQ(report.finding(), measure::Finding::kRight);
}

}  // namespace
}  // namespace penstock
