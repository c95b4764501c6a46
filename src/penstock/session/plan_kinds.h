// Automatic split on devices that are chosen: kinds of groups of CPUs as the types of a problem.
#pragma once

#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/device/group_kinds.h"
#include "penstock/device/topology.h"
#include "penstock/graph/graph.h"
#include "penstock/planner/choose.h"
#include "penstock/session/plan_model.h"

namespace penstock {

/// A way to run the network that any kind of group may offer.
struct KindMode {
  std::string name;
  /// [kind][node] Seconds of a node on a device of that kind; infinite: it cannot run there.
  std::vector<std::vector<double>> seconds;
};

/// A type for each of the groupings' kinds, with all devices that it has room for and these bytes
/// of memory for each (one number a kind), and a mode for each way, kind by kind. Groups and values
/// as in problem_of_model() with these costs. planner::choose() picks from it by the groupings'
/// counts. \error as cost::problem_of()
Result<planner::Problem> problem_of_kinds(const graph::Graph& graph,
                                          const device::Groupings& groupings,
                                          const cost::GraphProblemOptions& costs,
                                          const std::vector<KindMode>& modes,
                                          const std::vector<double>& memory);

/// The choice with the grouping's own devices in place of those that stood for their kinds.
PlannedModel planned_on(planner::Choice choice, const device::Grouping& grouping);

/// Plans with analytic costs on the best devices that the machine's CPUs can be, within its quota.
/// Siblings of one core share its time, and all CPUs in use what the quota gives; cores of unlike
/// kinds count as alike, since nothing here is measured. `options.devices`, pins and the user's
/// split are not used. \error as cost::problem_of() and planner::choose()
Result<PlannedModel> plan_groupings(const graph::Graph& graph, const device::Topology& topology,
                                    const PlanModelOptions& options);

}  // namespace penstock
