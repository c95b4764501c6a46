// Exact quantiles of what was measured.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace penstock {

/// The least value that at least the share `q` of `values` does not exceed; 0 of none. Reorders.
template <typename T>
double quantile(std::vector<T>& values, double q) {
  if (values.empty()) return 0;
  const auto rank = static_cast<std::ptrdiff_t>(std::ceil(q * static_cast<double>(values.size())));
  const auto last = static_cast<std::ptrdiff_t>(values.size()) - 1;
  const auto place = values.begin() + std::clamp<std::ptrdiff_t>(rank - 1, 0, last);
  std::nth_element(values.begin(), place, values.end());
  return static_cast<double>(*place);
}

/// The middle one, or the mean of the two; 0 of none.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Half of what the middle half of the values spans, relative to their median; 0 of none.
inline double spread(std::vector<double> values) {
  const double middle = median(values);
  if (middle <= 0) return 0;
  return (quantile(values, 0.75) - quantile(values, 0.25)) / 2 / middle;
}

}  // namespace penstock
