// How many frames and calls a stage can have at once in its plan, and why there are no more.
#pragma once

#include <string>
#include <vector>

#include "penstock/plan/plan.h"

namespace penstock::plan {

/// Stages that take more frames in a call than an edge of theirs holds, each in a sentence that
/// begins with its name. \pre  the plan is valid
std::vector<std::string> batches_beyond_edges(const Plan& plan);

/// Why a call of the stage begins only when the one before has ended, in words that follow a colon;
/// none: it may have several lanes.
std::vector<std::string> why_one_lane(const Plan& plan, const Stage& stage);

}  // namespace penstock::plan
