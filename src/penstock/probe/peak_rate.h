// The rate of threads that work at once, where others may take their CPUs.
#pragma once

#include <vector>

namespace penstock::probe {

/// What one thread did in a round, in seconds since any time that is the same for all.
struct PeakTurn {
  double begin = 0, end = 0;
  double computed = 0;  ///< Of that, what the thread had of its CPU.
  double amount = 0;    ///< Of floating point operations, or of bytes.
};

struct PeakRate {
  double per_second = 0;  ///< Of all threads, each over the time that it had of its CPU.
  bool quiet = true;  ///< Nobody else took a CPU meanwhile, and all threads were at work at once.
};

/// Of a round. \pre  each turn computed for some time
PeakRate peak_rate_of(const std::vector<PeakTurn>& turns);

}  // namespace penstock::probe
