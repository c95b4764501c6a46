// The most that CPUs do of arithmetic and of reading, timed.
#pragma once

#include <functional>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/cost/peaks.h"

namespace penstock::probe {

/// A thread on each of the CPUs, all at once, in short rounds; the best round counts, as what
/// others took of a CPU only lowers a rate. Blocks for some tenths of a second, and takes memory of
/// four times the last cache, a quarter of what is left at most. `alive` is called after each
/// round.
/// \error kInvalidArgument, kPermissionDenied  one of the CPUs may not be used
Result<cost::Peaks> time_peaks(const std::vector<int>& cpus, const std::function<void()>& alive);

}  // namespace penstock::probe
