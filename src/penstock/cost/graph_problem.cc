#include "penstock/cost/graph_problem.h"

#include <algorithm>
#include <map>
#include <string>

namespace penstock::cost {
namespace {

using graph::Graph;
using graph::NodeId;
using planner::Problem;

int cpus_of(const device::Device& device) {
  return static_cast<int>(device.cpus.size());
}

Status add_devices(Problem& problem, const std::vector<device::Device>& devices,
                   const GraphProblemOptions& options, std::vector<int>& cpus_of_mode) {
  if (devices.empty()) return invalid_argument("devices: expected at least one, found none");
  PENSTOCK_CHECK_OK(device::check_disjoint(devices));
  for (const auto& device : devices) {
    const auto name = device::to_string(device);
    if (!device.is_local_cpu()) {
      return invalid_argument("device '", name,
                              "': what it costs to compute there and to send it tensors is not "
                              "known without measuring; expected CPUs of this machine");
    }
    const auto same = std::ranges::find(cpus_of_mode, cpus_of(device));
    const auto type = static_cast<std::size_t>(same - cpus_of_mode.begin());
    if (same == cpus_of_mode.end()) {
      cpus_of_mode.push_back(cpus_of(device));
      planner::DeviceType made;
      made.name = cpus_of(device) == 1 ? "CPU" : concat("group of ", cpus_of(device), " CPUs");
      made.memory = options.memory;
      problem.types.push_back(std::move(made));
      problem.modes.push_back({options.backend, static_cast<int>(type), 0});
    }
    problem.types[type].devices.push_back(name);
  }
  return {};
}

void add_groups(Problem& problem, const Graph& graph, const GraphProblemOptions& options,
                const std::vector<int>& cpus_of_mode) {
  const auto& figures = options.figures;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    planner::Group group;
    group.name = graph.nodes[i].name;
    group.nodes = {static_cast<int>(i)};
    for (const int cpus : cpus_of_mode) {
      double seconds = node_seconds(graph, id, figures, cpus);
      if (!options.node_seconds.empty()) {
        seconds *=
            options.node_seconds[i] / node_seconds(graph, id, figures, options.measured_cpus);
      }
      group.time.push_back(seconds);
    }
    group.memory = static_cast<double>(graph::weight_bytes_of(graph, id));
    problem.groups.push_back(std::move(group));
  }
}

void add_values(Problem& problem, const Graph& graph, const Figures& figures) {
  for (const auto& value : graph.values) {
    if (!value.producer || value.consumers.empty()) continue;
    planner::Value made;
    made.name = value.name;
    made.producer = static_cast<int>(graph::index(*value.producer));
    made.bytes = static_cast<double>(value.type.max_bytes().value_or(0));
    made.transfer_time = figures.seconds_per_transfer;
    for (const auto consumer : value.consumers) {
      made.consumers.push_back(static_cast<int>(graph::index(consumer)));
      problem.order.emplace_back(made.producer, made.consumers.back());
    }
    if (value.type.kind == Type::Kind::kOther) {  // Sequences and maps stay within a stage.
      auto& together = problem.colocated.emplace_back(made.consumers);
      together.push_back(made.producer);
    }
    problem.values.push_back(std::move(made));
  }
}

}  // namespace

Result<Problem> problem_of(const Graph& graph, const std::vector<device::Device>& devices,
                           const GraphProblemOptions& options) {
  Problem problem;
  std::vector<int> cpus_of_mode;
  PENSTOCK_CHECK_OK(add_devices(problem, devices, options, cpus_of_mode));
  add_groups(problem, graph, options, cpus_of_mode);
  add_values(problem, graph, options.figures);
  problem.frames_in_flight = options.memory < planner::kInfinite;
  std::map<NodeId, std::string> pinned;
  for (const auto& [node, device] : options.pins) {
    const auto [before, first] = pinned.emplace(node, device::to_string(device));
    if (!first && before->second != device::to_string(device)) {
      return invalid_argument("pinned to '", before->second, "' and to '",
                              device::to_string(device), "'")
          .within({Where::kNode, graph.nodes[graph::index(node)].name});
    }
    PENSTOCK_TRY(problem, planner::pin(std::move(problem), static_cast<int>(graph::index(node)),
                                       device::to_string(device)));
  }
  PENSTOCK_CHECK_OK(planner::validate(problem));
  return problem;
}

}  // namespace penstock::cost
