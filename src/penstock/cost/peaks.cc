// Picks the fastest vector width, and the fastest level of memory that holds a number of bytes.
#include "penstock/cost/peaks.h"

#include <algorithm>

namespace penstock::cost {

double Peaks::flops_per_second() const {
  double most = 0;
  for (const auto& width : widths) most = std::max(most, width.flops_per_second);
  return most;
}

const Peaks::Level* Peaks::level_of(double bytes) const {
  const Level* best = nullptr;
  for (const auto& level : levels) {
    const bool holds = &level == &levels.back() || bytes <= level.bytes;
    if (!holds) continue;
    if (best == nullptr || level.bytes_per_second > best->bytes_per_second) best = &level;
  }
  return best;
}

}  // namespace penstock::cost
