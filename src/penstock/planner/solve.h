// Solving a problem: the planner's table of contents.
#pragma once

#include "penstock/base/result.h"
#include "penstock/planner/answer.h"
#include "penstock/planner/problem/problem.h"
#include "penstock/planner/search/search.h"

namespace penstock::planner {

/// The best split that the options allow and that is found in their time, with a proved lower
/// bound; never worse than a baseline that competes. Splits and bounds are checked by evaluate().
///
/// \error kInvalidArgument     as validate() says, or the options' user split breaks a rule.
/// \error kFailedPrecondition  no split exists: memory or the latency cap forbids each; or they
/// leave so
///                             little room that none was found, though one may exist.
/// \error kDeadlineExceeded    none was found in time.
/// \error kCancelled           interrupted before any was found.
Result<Answer> solve(const Problem& problem, const Options& options);

/// solve() without what explains the answer: no `binding`, no `runner_up`. For lists of many.
Result<Answer> solve_unexplained(const Problem& problem, const Options& options);

}  // namespace penstock::planner
