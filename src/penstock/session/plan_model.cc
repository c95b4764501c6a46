// Makes the problem, merges nodes of large graphs, solves it, and reads stages from the answer.
#include "penstock/session/plan_model.h"

#include <algorithm>

#include "penstock/base/option_name.h"
#include "penstock/device/place.h"
#include "penstock/device/topology.h"
#include "penstock/planner/problem/runs.h"
#include "penstock/session/plan_kinds.h"
#include "penstock/session/state_loops.h"

namespace penstock {
namespace {

/// The planner knows what stands behind each: a quarter of the square in bytes, by bits.
constexpr std::size_t kMostGroups = 4096;

/// Each loop that a state closes in one stage; where stages may have replicas, on the widest device
/// alone.
Status keep_loops(const graph::Graph& graph, PlanModelOptions& options) {
  PENSTOCK_CHECK_OK(check_states(graph, options.states));
  const auto loops = state_loops(graph, options.states);
  auto& costs = options.costs;
  costs.together.insert(costs.together.end(), loops.begin(), loops.end());
  if (!options.search.replicas || loops.empty()) return {};
  if (options.devices.empty()) {
    return invalid_argument(
        "replicas of a network with states: expected devices by name, such as cpu:0,cpu:1 "
        "(",
        OptionName::kDevices, "), as what writes a state stays on one of them");
  }
  const auto& widest = *std::ranges::max_element(
      options.devices, {}, [](const device::Device& device) { return device.cpus.size(); });
  for (const auto& loop : loops) {
    const bool pinned = std::ranges::any_of(costs.pins, [&](const auto& pin) {
      return std::ranges::find(loop, pin.first) != loop.end();
    });
    if (pinned) continue;  // The user's own pin holds all of it.
    for (const auto node : loop) costs.pins.emplace_back(node, widest);
  }
  return {};
}

}  // namespace

Result<planner::Problem> problem_of_model(const graph::Graph& graph,
                                          const PlanModelOptions& options) {
  auto devices = options.devices;
  if (devices.empty()) {
    PENSTOCK_TRY(const auto topology, device::read_topology());
    PENSTOCK_TRY(devices, device::parse_devices("all", device::allowed_cpus(topology)));
  }
  PENSTOCK_TRY(auto problem, cost::problem_of(graph, devices, options.costs));
  return planner::merge_runs(std::move(problem), kMostGroups);
}

Result<PlannedModel> plan_model(const graph::Graph& graph, const PlanModelOptions& given) {
  if (graph.nodes.empty()) {
    return invalid_argument(
        "nothing is left to plan: the import leaves no node of '", graph.import.file.string(),
        "', as its outputs are constants or inputs; 'penstock split' writes it");
  }
  auto options = given;
  PENSTOCK_CHECK_OK(keep_loops(graph, options));
  const bool named =
      !options.devices.empty() || !options.costs.pins.empty() || options.search.user_split;
  if (!named) {
    PENSTOCK_TRY(const auto topology, device::read_topology());
    return plan_groupings(graph, topology, options);
  }
  PENSTOCK_TRY(auto problem, problem_of_model(graph, options));
  PENSTOCK_TRY(auto answer, planner::solve(problem, options.search));
  return PlannedModel{std::move(problem), std::move(answer), {}};
}

Result<partition::ChosenStages> chosen_stages_of(const PlannedModel& planned) {
  std::vector<std::string> names;
  for (const auto& type : planned.problem.types) {
    names.insert(names.end(), type.devices.begin(), type.devices.end());
  }
  partition::ChosenStages made;
  for (const auto& stage : planned.answer.split.stages) {
    const auto mode = static_cast<std::size_t>(stage.mode);
    partition::ChosenStage chosen;
    chosen.predicted_seconds = planned.problem.modes[mode].launch;
    for (const int group : stage.groups) {
      chosen.predicted_seconds +=
          planned.problem.groups[static_cast<std::size_t>(group)].time[mode];
      for (const int node : planned.problem.groups[static_cast<std::size_t>(group)].nodes) {
        chosen.nodes.push_back(static_cast<graph::NodeId>(node));
      }
    }
    if (chosen.nodes.empty()) continue;  // An end of the caller's.
    for (const int index : stage.devices) {
      PENSTOCK_TRY(auto device, device::parse_device(names[static_cast<std::size_t>(index)]));
      chosen.devices.push_back(std::move(device));
    }
    made.stages.push_back(std::move(chosen));
  }
  made.prediction = {.period_seconds = planned.answer.evaluation.period,
                     .latency_seconds = planned.answer.evaluation.latency,
                     .lower_bound_seconds = planned.answer.lower_bound};
  return made;
}

}  // namespace penstock
