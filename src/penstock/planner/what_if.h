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
  std::string why_not;  ///< Why there is none.
};

/// One more device of each type, a tenth more bandwidth, half of each memory; each where it
/// applies; none but the last is worse than `options.user_split`. Each change gets an equal share
/// of `seconds`. Ends early when options.interrupted says so.
std::vector<WhatIf> what_if(const Problem& problem, const Options& options, double seconds);

}  // namespace penstock::planner
