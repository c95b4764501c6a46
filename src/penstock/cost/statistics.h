// Medians with their confidence, and lines through points that may be wrong.
#pragma once

#include <utility>
#include <vector>

namespace penstock::cost {

struct Median {
  double value = 0;
  double low = 0;   ///< 95 % confidence interval, free of any distribution: order statistics
  double high = 0;  ///< (Hahn, Meeker 1991). Of fewer than six values: all of them.
};

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
