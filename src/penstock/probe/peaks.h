// The most that CPUs do of arithmetic and of reading, timed.
#pragma once

#include <functional>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/cost/peaks.h"

namespace penstock::probe {

/// A thread on each of the CPUs, all at once, in short rounds. The best of the quiet rounds counts;
/// where others leave none within a second, the best of all: arithmetic is timed well then, while
/// reading may be too fast, as not all threads read at once. Blocks for some tenths of a second,
/// for some seconds beside others, and takes memory of four times the last cache, a quarter of what
/// is left at most. `alive` is called before each round.
/// \error kInvalidArgument, kPermissionDenied  one of the CPUs may not be used
Result<cost::Peaks> time_peaks(const std::vector<int>& cpus, const std::function<void()>& alive);

}  // namespace penstock::probe
