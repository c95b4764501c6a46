// The rate of invented turns: side by side, with a thread held up, and one after the other.
#include "penstock/probe/peak_rate.h"

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

}  // namespace
}  // namespace penstock::probe
