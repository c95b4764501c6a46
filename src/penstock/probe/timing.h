// How long something takes that can be done again and again.
#pragma once

#include <cstdint>
#include <functional>

#include "penstock/base/result.h"

namespace penstock::probe {

struct Timing {
  double seconds = 0;        ///< Of one run: the median of the rounds' means.
  double low = 0, high = 0;  ///< 95 % confidence interval of that median.
  std::int64_t runs = 0;
};

/// Repeats `run` in rounds of some milliseconds until the interval's ends are within 2 % of the
/// median and `min_seconds` have passed, or `max_seconds`. A first part of the time warms up.
/// Time in which other processes had this thread's CPU does not count, nor do rounds in which they
/// came in between if there are enough others: a part's cost is that on a CPU of its own. `alive`
/// is called after each round. \error  the first of `run`
Result<Timing> time_runs(const std::function<Status()>& run, double min_seconds, double max_seconds,
                         const std::function<void()>& alive);

}  // namespace penstock::probe
