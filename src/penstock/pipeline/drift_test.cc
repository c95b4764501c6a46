// What DriftWatch says of invented durations, by an invented clock.
#include "penstock/pipeline/drift.h"

#include <gtest/gtest.h>

#include "penstock/pipeline/histogram.h"

namespace penstock::pipeline::drift_test {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr double kPredicted = 10.0 * kMillisecond;

class DriftTest : public ::testing::Test {
 protected:
  /// So many frames of so many milliseconds, then a look so many seconds later. `batch`: how many
  /// frames a call holds.
  std::optional<Drift> look(double seconds, int frames, double milliseconds, int batch = 1) {
    for (int i = 0; i < frames; ++i) {
      histogram_.record(static_cast<std::int64_t>(milliseconds * kMillisecond));
    }
    now_ += std::chrono::duration_cast<DriftWatch::Clock::duration>(
        std::chrono::duration<double>(seconds));
    calls_[static_cast<std::size_t>(batch - 1)] += static_cast<std::uint64_t>(frames / batch);
    watch_.see(now_, Histogram::durations({&histogram_}), calls_, 1);
    return watch_.against(kPredicted, watch_.busy());
  }

  DriftWatch watch_;
  Histogram histogram_;
  std::vector<std::uint64_t> calls_ = std::vector<std::uint64_t>(8);
  DriftWatch::Clock::time_point now_ = DriftWatch::Clock::now();
};

TEST_F(DriftTest, SaysNothingBeforeAWindowHasEnded) {
  EXPECT_FALSE(look(0.1, 100, 10));
  EXPECT_FALSE(look(0.1, 100, 10));
}

TEST_F(DriftTest, OfWhatIsAsForetoldIsWithinTheNoise) {
  std::optional<Drift> drift;
  for (int i = 0; i < 5; ++i) drift = look(1, 90, 10.4);
  ASSERT_TRUE(drift);
  EXPECT_NEAR(drift->ratio, 1.04, 0.04);
  EXPECT_EQ(drift->predicted_ns, kPredicted);
  EXPECT_FALSE(drift->beyond_noise);
}

TEST_F(DriftTest, IsBeyondTheNoiseOnceThreeWindowsAgree) {
  for (int i = 0; i < 5; ++i) ASSERT_FALSE(look(1, 90, 10)->beyond_noise);
  EXPECT_FALSE(look(1, 60, 15)->beyond_noise);
  EXPECT_FALSE(look(1, 60, 15)->beyond_noise);
  const auto drift = look(1, 60, 15);
  EXPECT_TRUE(drift->beyond_noise);
  EXPECT_NEAR(drift->ratio, 1.5, 0.05);
  EXPECT_FALSE(look(1, 90, 10)->beyond_noise) << "one window without it ends it";
}

TEST_F(DriftTest, CountsWhatIsFasterToo) {
  std::optional<Drift> drift;
  for (int i = 0; i < 3; ++i) drift = look(1, 200, 5);
  EXPECT_TRUE(drift->beyond_noise);
  EXPECT_NEAR(drift->ratio, 0.5, 0.02);
}

TEST_F(DriftTest, OfAPipelineThatWaitsMostOfTheTimeNothingIsBeyondTheNoise) {
  std::optional<Drift> drift;
  for (int i = 0; i < 3; ++i) drift = look(1, 30, 15);
  EXPECT_NEAR(watch_.busy(), 0.45, 0.02);
  EXPECT_NEAR(drift->ratio, 1.5, 0.05) << "told all the same";
  EXPECT_FALSE(drift->beyond_noise);
  EXPECT_TRUE(watch_.against(kPredicted, 0.9)->beyond_noise) << "another stage has no time to wait";
}

TEST_F(DriftTest, ACallOfSeveralFramesMakesTheStageBusyOnce) {
  for (int i = 0; i < 3; ++i) look(1, 60, 15);
  EXPECT_NEAR(watch_.busy(), 0.9, 0.04);
  std::optional<Drift> drift;
  for (int i = 0; i < 3; ++i) drift = look(1, 80, 15, 8);
  EXPECT_NEAR(watch_.busy(), 0.15, 0.02) << "of 10 calls";
  EXPECT_FALSE(drift->beyond_noise);
}

TEST_F(DriftTest, SlowFramesAmongOthersAreNone) {
  std::optional<Drift> drift;
  for (int i = 0; i < 3; ++i) {
    look(0, 30, 100);
    drift = look(1, 60, 10);
  }
  EXPECT_NEAR(drift->ratio, 1, 0.04);
}

TEST_F(DriftTest, WindowsWithFewFramesGoOn) {
  EXPECT_FALSE(look(1, 2, 30));
  EXPECT_FALSE(look(1, 2, 30));
  EXPECT_TRUE(look(1, 2, 30));
}

TEST_F(DriftTest, LooksInQuickSuccessionMakeNoMoreWindows) {
  for (int i = 0; i < 20; ++i) look(0.1, 9, 15);
  EXPECT_FALSE(watch_.against(kPredicted, 1)->beyond_noise) << "two seconds are two windows";
}

}  // namespace
}  // namespace penstock::pipeline::drift_test
