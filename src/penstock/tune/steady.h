// The piece of a running plan's trace that shows its steady state.
#pragma once

#include <vector>

#include "penstock/base/result.h"
#include "penstock/pipeline/spans.h"
#include "penstock/tune/contest.h"
#include "penstock/tune/report.h"

namespace penstock::tune {

/// Of the last frames that ran one after the other while `in_flight` were on their way: those that
/// were pushed last left a pipeline that ran empty. Empty where there were less than two.
TraceReport steady_trace(const std::vector<pipeline::WorkerSpans>& workers, std::size_t in_flight);

/// Of a plan that has run a side. \error  of Runner::spans()
Result<TraceReport> steady_trace(const Running& running);

}  // namespace penstock::tune
