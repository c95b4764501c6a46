// Explain: an answer in sentences, for people.
#pragma once

#include <string>

#include "penstock/planner/answer.h"

namespace penstock::planner {

/// A number with seven digits, or all before the point where these are more; "none" where it is
/// infinite. Seconds have their unit: "277.64 us".
std::string cost_text(double cost, bool in_seconds);

/// What was found, how good it is at best, what binds, the runner-up and every baseline; a line
/// each.
std::string explain(const Problem& problem, const Options& options, const Answer& answer);

}  // namespace penstock::planner
