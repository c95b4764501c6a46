// The last comparison: the best plan beside the simple ways, and whether one of them is answered.
#pragma once

#include "penstock/base/result.h"
#include "penstock/tune/context.h"
#include "penstock/tune/proposals.h"

namespace penstock::tune {

/// The parts of the best plan by themselves: the gate knows the whole only; then the plan on frames
/// of other sizes. A plan with a wrong part, or that is wrong there, leaves its place to the next.
/// \error no_plan()
Status check_parts(Context& context);

/// The simple ways and the best plan in turn, into report.now. A plan that fails leaves its place
/// to the next. \error no_plan(), kCancelled
Status run_simple(Context& context, double seconds);

/// The same for report.comparison, with the trace of the plan; where a simple way passes the plan,
/// plans that do what it does are tried once more. \error as run_simple()
Status compare_with_simple(Context& context, Proposals& proposals);

}  // namespace penstock::tune
