// The piece of a running plan's trace that shows its steady state.
#pragma once

#include <vector>

#include "penstock/base/result.h"
#include "penstock/pipeline/spans.h"
#include "penstock/tune/contest.h"
#include "penstock/tune/report.h"

namespace penstock::tune {

/// Of up to 24 frames that came out one after the other at the rate nearest to the given one, the
/// last such, while `in_flight` were on their way: those that were pushed last left a pipeline that
/// ran empty. Empty where there were less than two.
TraceReport steady_trace(const std::vector<pipeline::WorkerSpans>& workers, std::size_t in_flight,
                         double frames_per_second);

/// Of a plan that has run a side, at the rate that was measured. \error  of Runner::spans()
Result<TraceReport> steady_trace(const Running& running, double frames_per_second);

}  // namespace penstock::tune
