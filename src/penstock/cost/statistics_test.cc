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

TEST(MedianTest, OfFewValuesHasAllOfThemAsItsInterval) {
  const auto three = median_of({3, 1, 2});
  EXPECT_DOUBLE_EQ(three.value, 2);
  EXPECT_DOUBLE_EQ(three.low, 1);
  EXPECT_DOUBLE_EQ(three.high, 3);
  EXPECT_DOUBLE_EQ(median_of({7}).high, 7);
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
