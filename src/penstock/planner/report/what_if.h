// What-if: what the answer would be, were the machine a little different.
#pragma once

#include <string>
#include <vector>

#include "penstock/planner/answer.h"

namespace penstock::planner {

struct WhatIf {
  std::string change;       ///< "one more accelerator", "10 % more bandwidth", "half the memory".
  double cost = kInfinite;  ///< Of the best split found then; infinite: there is none.
  double lower_bound = 0;
  double gap = kInfinite;
  bool proved = false;
  /// No plan for the machine as it is costs as little: the gain is the change's, not the search's.
  bool certain_gain = false;
  std::string why_not;  ///< Why there is none.
};

/// One more device of each type, a tenth more bandwidth, half of each memory; each where it
/// applies; none but the last is worse than `answer`, which solve() gave. Each change gets an equal
/// share of `seconds`, and so does the problem as it is where the answer is not proved: a change
/// shall not be praised for the time. A plan found for a change that is one without it, and better,
/// becomes the answer. Ends early when options.interrupted says so.
std::vector<WhatIf> what_if(const Problem& problem, const Options& options, double seconds,
                            Answer& answer);

}  // namespace penstock::planner
