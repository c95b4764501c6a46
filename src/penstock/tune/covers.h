// Covers: several backends in one stage, where that is cheaper by measurement.
#pragma once

#include <vector>

#include "penstock/tune/parts.h"

namespace penstock::tune {

/// The best covers of several backends, every part measured and its outputs checked.
///
/// Measures the pieces, then, of larger parts, those that a best cover would have; then the same
/// with finer pieces where another backend comes near, as long as the covers get better. The best
/// are timed as chains, with their neighbours: what a part by itself takes does not know who runs
/// before it. Fewer than `count`, or none, where the time was up.
/// \error kCancelled, and of the profiler.
Result<std::vector<Cover>> find_covers(Parts& parts, const Options& options, int count,
                                       Parts::Clock::time_point deadline);

}  // namespace penstock::tune
