// The rate of invented turns: side by side, with a thread held up, and one after the other.
#include "penstock/probe/peak_rate.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::probe {
namespace {

TEST(PeakRate, IsTheSumOverThreadsThatHadTheirCpus) {
  const auto rate = peak_rate_of({{0, 1, 1, 10}, {0, 1, 1, 6}});
  EXPECT_DOUBLE_EQ(rate.per_second, 16);
  EXPECT_TRUE(rate.quiet);
}

TEST(PeakRate, OfAThreadThatWasHeldUpIsOverTheTimeThatItHad) {
  const auto rate = peak_rate_of({{0, 1, 1, 10}, {0, 1, 0.5, 5}});
  EXPECT_DOUBLE_EQ(rate.per_second, 20);
  EXPECT_FALSE(rate.quiet);
}

TEST(PeakRate, OfThreadsThatWorkedOneAfterTheOtherIsNotQuiet) {
  const auto rate = peak_rate_of({{0, 1, 1, 10}, {1, 2, 1, 10}});
  EXPECT_DOUBLE_EQ(rate.per_second, 20);
  EXPECT_FALSE(rate.quiet);
}

constexpr double kRound = 0.001;

/// How many rounds a rate takes of these, the last of which comes again and again.
int rounds_of(BestRate& best, const std::vector<PeakRate>& rounds) {
  int count = 0;
  while (best.wants_more(count * kRound)) {
    const auto last = rounds.size() - 1;
    best.add(rounds[std::min(static_cast<std::size_t>(count), last)]);
    ++count;
  }
  return count;
}

TEST(BestRate, IsThatOfAQuietRoundAndEndsSoonAfterIt) {
  BestRate best(1);
  EXPECT_LT(rounds_of(best, {{20, false}, {10, true}, {9, true}}), 20);
  EXPECT_DOUBLE_EQ(best.per_second(), 10);
  EXPECT_DOUBLE_EQ(best.patience_left(0.015), 1);
}

TEST(BestRate, WaitsNotForRoundsAfterAQuietOneThatOthersCutInto) {
  BestRate best(1);
  EXPECT_LT(rounds_of(best, {{10, true}, {9, false}}), 20);
  EXPECT_DOUBLE_EQ(best.per_second(), 10);
}

TEST(BestRate, OfLoudRoundsAloneTakesThePatienceOnce) {
  BestRate best(1);
  EXPECT_NEAR(rounds_of(best, {{12, false}, {11, false}}) * kRound, 1, 0.01);
  EXPECT_DOUBLE_EQ(best.per_second(), 12);
  BestRate next(best.patience_left(1.001));
  EXPECT_LT(rounds_of(next, {{8, false}}) * kRound, 0.2);
  EXPECT_DOUBLE_EQ(next.per_second(), 8);
}

TEST(BytesToRead, LieInTheLevelAndNotInTheNearerOne) {
  EXPECT_EQ(bytes_to_read(32 << 10, 0), 16U << 10);
  EXPECT_EQ(bytes_to_read(1 << 20, 32 << 10), 128U << 10);
  EXPECT_EQ(bytes_to_read(32 << 20, 1 << 20), 4U << 20) << "other guests may have the rest";
  EXPECT_EQ(bytes_to_read(3 << 20, 1 << 20), 3U << 19) << "half of it";
}

TEST(RaiseNearer, NoLevelIsSlowerThanOneBehindIt) {
  std::vector<cost::Peaks::Level> levels{
      {"L1", 1, 90}, {"L2", 2, 40}, {"L3", 3, 17}, {"memory", 0, 20}};
  raise_nearer(levels);
  EXPECT_EQ(levels[0].bytes_per_second, 90);
  EXPECT_EQ(levels[1].bytes_per_second, 40);
  EXPECT_EQ(levels[2].bytes_per_second, 20);
  EXPECT_EQ(levels[3].bytes_per_second, 20);
}

}  // namespace
}  // namespace penstock::probe
