// The clock of all measurements in this program.
#pragma once

#include <chrono>
#include <ctime>

namespace penstock::probe {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// What the calling thread computed so far. A round cannot have taken less, whatever it waited.
inline double computed_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace penstock::probe
