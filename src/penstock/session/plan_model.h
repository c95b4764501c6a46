// Automatic split: a graph and devices -> the planner's answer -> stages.
#pragma once

#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/cost/graph_problem.h"
#include "penstock/device/device.h"
#include "penstock/graph/graph.h"
#include "penstock/partition/split.h"
#include "penstock/plan/plan.h"
#include "penstock/planner/solve.h"

namespace penstock {

struct PlanModelOptions {
  std::vector<device::Device> devices;  ///< Empty: as plan_model() chooses.
  cost::GraphProblemOptions costs;
  planner::Options search;
  /// What they tie together stays in one stage, which has no replicas: state_loops().
  std::vector<plan::StateEdge> states;
};

/// The answer with the problem that it answers. Group i of the problem is node i of the graph;
/// further ones have no nodes. Of networks of more than 4,096 nodes, groups are runs of them.
struct PlannedModel {
  planner::Problem problem;
  planner::Answer answer;
  std::string grouping;  ///< device::Grouping::text where devices were chosen.
};

/// The problem of the named devices, or of each CPU of the inherited cpuset, without the options'
/// `search`. \error as cost::problem_of()
Result<planner::Problem> problem_of_model(const graph::Graph& graph,
                                          const PlanModelOptions& options);

/// Plans with analytic costs; nothing is compiled or run. Where no devices are named, they are
/// those of the best grouping of the CPUs that the process may use, within its quota
/// (plan_groupings()); a pin or a user's split names devices: then each CPU is one. \error as
/// cost::problem_of(), planner::solve(), planner::choose() and check_states(); kInvalidArgument
/// states and replicas, and no devices are named.
Result<PlannedModel> plan_model(const graph::Graph& graph, const PlanModelOptions& options);

/// The answer's stages, for partition::split() and split_model().
/// \error kInternal  the answer names a device that no text stands for
Result<partition::ChosenStages> chosen_stages_of(const PlannedModel& planned);

}  // namespace penstock
