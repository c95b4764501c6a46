#include "penstock/cost/statistics.h"

#include <algorithm>
#include <cmath>

namespace penstock::cost {
namespace {

constexpr std::size_t kFewest = 6;  // Of five values not even least and greatest reach 95 %.
constexpr double kNormal95 = 1.959964;

double middle_of(const std::vector<double>& sorted) {
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

}  // namespace

Median median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t n = values.size();
  const double middle = middle_of(values);
  if (n < kFewest) return {middle, values.front(), values.back()};
  // How many values lie below the median is binomial (n, 1/2).
  const auto count = static_cast<double>(n);
  const double below = std::floor((count - kNormal95 * std::sqrt(count)) / 2);
  const auto low = static_cast<std::size_t>(std::max(below, 0.0));
  return {middle, values[low], values[n - 1 - low]};
}

Line robust_line(const std::vector<std::pair<double, double>>& points) {
  std::vector<double> slopes;
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (std::size_t j = i + 1; j < points.size(); ++j) {
      const double run = points[j].first - points[i].first;
      if (run != 0) slopes.push_back((points[j].second - points[i].second) / run);
    }
  }
  const double slope = slopes.empty() ? 0 : median_of(std::move(slopes)).value;
  std::vector<double> offsets;
  for (const auto& [x, y] : points) offsets.push_back(y - slope * x);
  return {median_of(std::move(offsets)).value, slope};
}

}  // namespace penstock::cost
