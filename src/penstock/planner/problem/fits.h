// Whether bytes go into a device's memory.
#pragma once

namespace penstock::planner {

/// The rule of evaluate(): sums in another order may differ a little.
inline bool fits(double bytes, double cap) {
  constexpr double kRounding = 1e-9;
  return bytes <= cap * (1 + kRounding);
}

}  // namespace penstock::planner
