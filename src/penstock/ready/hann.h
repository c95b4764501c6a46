// Hann's window, of a period: what spectra and windows that overlap are weighed by.
#pragma once

#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

namespace penstock::ready {

/// The first weight is 0, and the one behind the last would be 0 again; a window of one sample
/// keeps it, as SciPy's does.
inline std::vector<float> hann(std::size_t size) {
  if (size == 1) return {1.0F};
  std::vector<float> window(size);
  for (std::size_t i = 0; i < size; ++i) {
    const double turn = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(size);
    window[i] = static_cast<float>(0.5 - 0.5 * std::cos(turn));
  }
  return window;
}

}  // namespace penstock::ready
