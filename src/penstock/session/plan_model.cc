#include "penstock/session/plan_model.h"

namespace penstock {

Result<planner::Problem> problem_of_model(const graph::Graph& graph,
                                          const PlanModelOptions& options) {
  auto devices = options.devices;
  if (devices.empty()) {
    for (const int cpu : device::inherited_cpus()) devices.push_back({.host = {}, .cpus = {cpu}});
  }
  return cost::problem_of(graph, devices, options.costs);
}

Result<PlannedModel> plan_model(const graph::Graph& graph, const PlanModelOptions& options) {
  PENSTOCK_TRY(auto problem, problem_of_model(graph, options));
  PENSTOCK_TRY(auto answer, planner::solve(problem, options.search));
  return PlannedModel{std::move(problem), std::move(answer)};
}

Result<partition::SplitOptions> split_options_of(const PlannedModel& planned) {
  std::vector<std::string> names;
  for (const auto& type : planned.problem.types) {
    names.insert(names.end(), type.devices.begin(), type.devices.end());
  }
  partition::SplitOptions options;
  for (const auto& stage : planned.answer.split.stages) {
    partition::ChosenStage chosen;
    for (const int group : stage.groups) chosen.nodes.push_back(static_cast<graph::NodeId>(group));
    for (const int index : stage.devices) {
      PENSTOCK_TRY(auto device, device::parse_device(names[static_cast<std::size_t>(index)]));
      chosen.devices.push_back(std::move(device));
    }
    options.stages.push_back(std::move(chosen));
  }
  options.prediction = {.period_seconds = planned.answer.evaluation.period,
                        .latency_seconds = planned.answer.evaluation.latency,
                        .lower_bound_seconds = planned.answer.lower_bound};
  return options;
}

}  // namespace penstock
