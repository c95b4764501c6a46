// Placement: on which devices the stages of an application stand.
#pragma once

#include <vector>

#include "penstock/base/result.h"
#include "penstock/device/device.h"
#include "penstock/plan/plan.h"

namespace penstock::app {

/// What planning knows of a stage.
struct StageCost {
  double seconds = 0;   ///< Of one frame, on the first device.
  bool single = false;  ///< It has one instance: it is stateful, or writes a state.
  bool fixed = false;   ///< It stands where the application says.
};

/// The devices of each stage of a plan, one for each instance.
struct Placement {
  std::vector<std::vector<device::Device>> devices;
  double lower_bound_seconds = 0;  ///< Of the period, by the costs.
};

/// The least load of the most loaded device. Without `replicas` a device may have several stages;
/// with them a stage may have several devices of its own. \error as planner::solve()
Result<Placement> place_stages(const plan::Plan& plan, const std::vector<StageCost>& costs,
                               const std::vector<device::Device>& devices, bool replicas);

}  // namespace penstock::app
