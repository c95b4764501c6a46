// Which settings of a plan's calls have no effect, and why a stage has one call in flight.
#pragma once

#include <string>
#include <vector>

#include "penstock/plan/plan.h"

namespace penstock::plan {

/// Stages that take more frames in a call than an edge of theirs holds, each in a sentence that
/// begins with its name. \pre  the plan is valid
std::vector<std::string> batches_beyond_edges(const Plan& plan);
/// Stages that take more frames in a call than the plan allows streams, and are given a stream's
/// next frame only behind the one before, as with that they write a state; as above.
std::vector<std::string> batches_beyond_streams(const Plan& plan);

/// How many frames a call may have for which every partition of the stage has a model, from 2 on,
/// ascending.
std::vector<int> frames_of_calls(const Stage& stage);
/// Stages that take more frames in a call than their models do; as above.
std::vector<std::string> batches_beyond_models(const Plan& plan);

/// Stages that may leave calls behind (Stage::max_left_behind), and have no Stage::max_run after
/// which a call would be left behind: one sentence, which names them all. None: there are no such.
std::vector<std::string> calls_never_left_behind(const Plan& plan);

/// Stages that draw random numbers (Stage::draws), where there are several or one has replicas:
/// each has a generator of its own. One sentence, which names them and their nodes; none: there is
/// one.
std::vector<std::string> separate_draws(const Plan& plan);

/// Why a call of the stage begins only when the one before has ended, in words that follow a colon;
/// none: it may have several lanes.
std::vector<std::string> why_one_lane(const Plan& plan, const Stage& stage);

}  // namespace penstock::plan
