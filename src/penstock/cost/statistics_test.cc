// Intervals of medians of one, few and ten values, and a line through points of which one is wrong.
#include "penstock/cost/statistics.h"

#include <gtest/gtest.h>

namespace penstock::cost {
namespace {

TEST(MedianTest, HasTheIntervalOfItsOrderStatistics) {
  const auto ten = median_of({10, 9, 8, 7, 6, 5, 4, 3, 2, 1});
  EXPECT_DOUBLE_EQ(ten.value, 5.5);
  // Of ten values the second and the ninth: the exact 95 % interval of a binomial (10, 1/2).
  EXPECT_DOUBLE_EQ(ten.low, 2);
  EXPECT_DOUBLE_EQ(ten.high, 9);
}

TEST(MedianTest, OfFewValuesHasAllOfThemInItsInterval) {
  const auto three = median_of({300, 1, 2});
  EXPECT_DOUBLE_EQ(three.value, 2);
  EXPECT_LE(three.low, 1);
  EXPECT_GT(three.low, 0);
  EXPECT_GE(three.high, 300);
}

TEST(MedianTest, OfOneValueIsNotCertain) {
  const auto one = median_of({7});
  EXPECT_DOUBLE_EQ(one.value, 7);
  EXPECT_NEAR(one.high, 7 * 1.2151, 1e-3);
  EXPECT_NEAR(one.low, 7 / 1.2151, 1e-3);
}

TEST(MedianTest, EachOfAFewValuesThatAgreeMakesItSurer) {
  double before = 1;
  for (std::size_t count = 1; count < 6; ++count) {
    const auto median = median_of(std::vector<double>(count, 4));
    EXPECT_LT(median.high / median.value - 1, before) << count;
    EXPECT_GT(median.high, median.value) << count;
    before = median.high / median.value - 1;
  }
}

TEST(RobustLineTest, FindsTheLineDespiteOneWrongPoint) {
  const auto line = robust_line({{0, 1}, {1, 3}, {2, 50}, {3, 7}, {4, 9}});
  EXPECT_DOUBLE_EQ(line.slope, 2);
  EXPECT_DOUBLE_EQ(line.intercept, 1);
}

TEST(RobustLineTest, OfOnePointIsLevel) {
  const auto line = robust_line({{5, 3}});
  EXPECT_DOUBLE_EQ(line.slope, 0);
  EXPECT_DOUBLE_EQ(line.intercept, 3);
}

}  // namespace
}  // namespace penstock::cost
