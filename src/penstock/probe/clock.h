// The clock of all measurements in this program.
#pragma once

#include <chrono>

namespace penstock::probe {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace penstock::probe
