// Medians with their confidence, and lines through points that may be wrong.
#pragma once

#include <utility>
#include <vector>

namespace penstock::cost {

struct Median {
  double value = 0;
  double low = 0;   ///< 95 % confidence interval, free of any distribution: order statistics
  double high = 0;  ///< (Hahn, Meeker 1991). Fewer than six values cannot tell it: see below.
};

/// The interval of fewer than six values is Student's about the median, but holds all of them.
/// Their deviation is taken together with one of 5 % that two more values would have shown, so that
/// one value alone, and values that agree by chance, claim no certainty: one is within 21.5 %.
/// \pre  not empty
Median median_of(std::vector<double> values);

/// y = intercept + slope * x.
struct Line {
  double intercept = 0;
  double slope = 0;
};

/// The median of the slopes between any two points (Theil 1950, Sen 1968): a third of the points
/// may be wrong. One point: a level line. \pre  not empty
Line robust_line(const std::vector<std::pair<double, double>>& points);

}  // namespace penstock::cost
