// Gives planner::choose() analytic seconds per kind, slowed by shared cores and the quota.
#include "penstock/session/plan_kinds.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace penstock {
namespace {

/// Of each use; every one of them costs a search.
constexpr std::size_t kMostGroupings = 512;

std::string name_of(const device::GroupKind& kind) {
  return kind.width == 1 ? "CPU" : concat("group of ", kind.width, " CPUs");
}

/// What a CPU's time is multiplied by where all CPUs of the use are busy.
double pace_of(const device::Topology& topology, const device::Use& use) {
  std::set<int> cores;
  for (const auto& cpu : topology.cpus) {
    if (std::ranges::find(use.cpus, cpu.number) != use.cpus.end()) cores.insert(cpu.core);
  }
  const auto cpus = static_cast<double>(use.cpus.size());
  const auto able = static_cast<double>(cores.size());
  return std::max(1.0, cpus / std::min(able, topology.cpu_quota.value_or(able)));
}

/// Seconds of each node on each kind of group.
Result<KindMode> analytic_mode(const graph::Graph& graph, const device::Topology& topology,
                               const device::Groupings& groupings,
                               const cost::GraphProblemOptions& costs) {
  KindMode mode{costs.backend, {}};
  std::map<int, std::vector<double>> seconds;  // By width.
  for (const auto& kind : groupings.kinds) {
    auto& of_width = seconds[kind.width];
    if (of_width.empty()) {
      PENSTOCK_TRY(const auto problem, cost::problem_of(graph, {kind.devices.front()}, costs));
      for (const auto& group : problem.groups) of_width.push_back(group.time.front());
    }
    const double pace = pace_of(topology, groupings.uses[kind.use]);
    auto& own = mode.seconds.emplace_back(of_width);
    for (double& time : own) time *= pace;
  }
  return mode;
}

}  // namespace

Result<planner::Problem> problem_of_kinds(const graph::Graph& graph,
                                          const device::Groupings& groupings,
                                          const cost::GraphProblemOptions& costs,
                                          const std::vector<KindMode>& modes,
                                          const std::vector<double>& memory) {
  PlanModelOptions options;
  options.devices = {groupings.kinds.front().devices.front()};
  options.costs = costs;
  PENSTOCK_TRY(auto problem, problem_of_model(graph, options));
  const auto type = problem.types.front();
  problem.types.clear();
  problem.modes.clear();
  for (auto& group : problem.groups) group.time.clear();
  for (std::size_t kind = 0; kind < groupings.kinds.size(); ++kind) {
    auto& made = problem.types.emplace_back(type);
    made.name = name_of(groupings.kinds[kind]);
    made.devices.clear();
    for (const auto& device : groupings.kinds[kind].devices) {
      made.devices.push_back(device::to_string(device));
    }
    made.memory = memory[kind];
    problem.frames_in_flight = problem.frames_in_flight || made.memory < planner::kInfinite;
    for (const auto& mode : modes) {
      problem.modes.push_back({mode.name, static_cast<int>(kind), 0});
      for (auto& group : problem.groups) {
        double seconds = 0;
        for (const int node : group.nodes) {
          seconds += mode.seconds[kind][static_cast<std::size_t>(node)];
        }
        group.time.push_back(seconds);
      }
    }
  }
  return problem;
}

PlannedModel planned_on(planner::Choice choice, const device::Grouping& grouping) {
  auto device = grouping.devices.begin();
  for (auto& type : choice.problem.types) {
    for (auto& name : type.devices) name = device::to_string(*device++);
  }
  return {std::move(choice.problem), std::move(choice.answer), grouping.text};
}

Result<PlannedModel> plan_groupings(const graph::Graph& graph, const device::Topology& topology,
                                    const PlanModelOptions& options) {
  const auto groupings = device::groupings_of(topology, kMostGroupings);
  PENSTOCK_TRY(auto mode, analytic_mode(graph, topology, groupings, options.costs));
  const std::vector<double> memory(groupings.kinds.size(), options.costs.memory);
  PENSTOCK_TRY(const auto problem,
               problem_of_kinds(graph, groupings, options.costs, {std::move(mode)}, memory));
  PENSTOCK_TRY(auto choice, planner::choose(problem, groupings.counts, options.search));
  const auto& grouping = groupings.groupings[choice.grouping];
  return planned_on(std::move(choice), grouping);
}

}  // namespace penstock
