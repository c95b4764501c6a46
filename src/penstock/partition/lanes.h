// Calls in flight of each instance of a stage: what is asked for, in words and in a plan.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/plan/plan.h"

namespace penstock::partition {

/// The lanes of the stage of that name; of all that are not named and may have several, where it is
/// empty. 0: as many as the backend recommends.
using Lanes = std::map<std::string, int>;

/// "4", "stage1=4". \error kInvalidArgument  of another form, or of another number than 0 to
/// plan::kMostLanes.
Result<std::pair<std::string, int>> parse_lanes(const std::string& text);

/// Gives the stages their lanes: to be called again once the plan has its states.
/// \error kNotFound  no stage of that name
Status add_lanes(const Lanes& lanes, plan::Plan& plan);

/// Whether lanes are asked of the stage only as they are asked of all.
using AskedOfAll = std::function<bool(const plan::Stage&)>;

/// Lanes that are asked of all stages are not for those that may have one only (see
/// plan::why_one_lane()): these get 0. What is asked of one of them by its name stays, and
/// plan::validate() refuses it.
void spare_lanes(plan::Plan& plan, const AskedOfAll& asked_of_all);

/// The stages that are spared, each in a sentence that says why.
std::vector<std::string> lanes_left_out(const plan::Plan& plan, const AskedOfAll& asked_of_all);

/// The same where the plan's stages have the names that add_lanes() took.
std::vector<std::string> lanes_left_out(const Lanes& lanes, const plan::Plan& plan);

}  // namespace penstock::partition
