// Intervals by order statistics, by Student's t for fewer than six values; Theil-Sen lines.
#include "penstock/cost/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace penstock::cost {
namespace {

constexpr std::size_t kFewest = 6;  // Of five values not even least and greatest reach 95 %.
constexpr double kNormal95 = 1.959964;
constexpr double kUsualDeviation = 0.05;  // Of repeated times on one machine, relative.
constexpr double kUsualWeight = 2;        // Degrees of freedom that this counts as.
// Student's 97.5 % quantiles for 2 to 6 degrees of freedom.
constexpr std::array kStudent95 = {4.302653, 3.182446, 2.776445, 2.570582, 2.446912};

double middle_of(const std::vector<double>& sorted) {
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

Median median_of_few(const std::vector<double>& sorted) {
  const double middle = middle_of(sorted);
  const auto n = static_cast<double>(sorted.size());
  double squares = kUsualWeight * std::pow(kUsualDeviation * middle, 2);
  for (const double value : sorted) squares += std::pow(value - middle, 2);
  const double deviation = std::sqrt(squares / (kUsualWeight + n - 1));
  const double reach = kStudent95.at(sorted.size() - 1) * deviation / std::sqrt(n);
  // A time is over 0, so what is below it may be as far by ratio as what is above.
  const double low = middle > 0 ? middle * middle / (middle + reach) : middle - reach;
  return {middle, std::min(low, sorted.front()), std::max(middle + reach, sorted.back())};
}

}  // namespace

Median median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t n = values.size();
  if (n < kFewest) return median_of_few(values);
  // How many values lie below the median is binomial (n, 1/2).
  const auto count = static_cast<double>(n);
  const double below = std::floor((count - kNormal95 * std::sqrt(count)) / 2);
  const auto low = static_cast<std::size_t>(std::max(below, 0.0));
  return {middle_of(values), values[low], values[n - 1 - low]};
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
