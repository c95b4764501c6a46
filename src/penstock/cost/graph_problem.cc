// Fills a planner's problem in order: device types, groups, values, the caller's ends, links, pins.
#include "penstock/cost/graph_problem.h"

#include <algorithm>
#include <map>
#include <string>

#include "penstock/base/option_name.h"

namespace penstock::cost {
namespace {

using graph::Graph;
using graph::NodeId;
using planner::Problem;

int cpus_of(const device::Device& device) {
  return std::max(1, static_cast<int>(device.cpus.size()));
}

/// CPUs of this machine in classes of as many each, which take the same time.
Result<std::vector<DeviceClass>> classes_of(const std::vector<device::Device>& devices,
                                            const GraphProblemOptions& options) {
  std::vector<DeviceClass> classes;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto& device = devices[i];
    const double pace = options.paces.empty() ? 1 : options.paces[i];
    if (device.is_accelerator()) {
      return invalid_argument(
          "device '", device::to_string(device),
          "': what it costs to compute there and to copy tensors to it is known "
          "by measurement alone; 'penstock build --devices' measures it");
    }
    if (!device.is_local_cpu()) {
      return invalid_argument("device '", device::to_string(device),
                              "': what it costs to compute there and to send it tensors is not "
                              "known without its host; name that in a file (",
                              OptionName::kHosts, ")");
    }
    const auto same = [&](const DeviceClass& known) {
      return known.devices.front().cpus.size() == device.cpus.size() && known.pace == pace;
    };
    auto found = std::ranges::find_if(classes, same);
    if (found == classes.end()) {
      DeviceClass made;
      made.name = cpus_of(device) == 1 ? "CPU" : concat("group of ", cpus_of(device), " CPUs");
      if (pace != 1) made.name += concat(", ", pace, " times the time");
      made.pace = pace;
      made.costs = options;
      made.memory = options.memory;
      found = classes.insert(classes.end(), std::move(made));
    }
    found->devices.push_back(device);
  }
  return classes;
}

Status add_devices(Problem& problem, const std::vector<DeviceClass>& classes,
                   const std::string& backend) {
  if (classes.empty()) return invalid_argument("devices: expected at least one, found none");
  std::vector<device::Device> all;
  for (const auto& one : classes) {
    planner::DeviceType type;
    type.name = one.name;
    type.memory = one.memory;
    type.overlap = one.overlap;
    for (const auto& device : one.devices) {
      type.devices.push_back(device::to_string(device));
      all.push_back(device);
    }
    problem.modes.push_back({backend, static_cast<int>(problem.types.size()), 0});
    problem.types.push_back(std::move(type));
  }
  return device::check_disjoint(all);
}

double seconds_on(const Graph& graph, NodeId node, const DeviceClass& on) {
  const auto& costs = on.costs;
  double seconds = node_seconds(graph, node, costs.figures, cpus_of(on.devices.front()));
  if (!costs.node_seconds.empty()) {
    seconds *= costs.node_seconds[graph::index(node)] /
               node_seconds(graph, node, costs.figures, costs.measured_cpus);
  }
  return seconds * on.pace / on.share;
}

void add_groups(Problem& problem, const Graph& graph, const std::vector<DeviceClass>& classes) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    planner::Group group;
    group.name = graph.nodes[i].name;
    group.nodes = {static_cast<int>(i)};
    for (const auto& one : classes) group.time.push_back(seconds_on(graph, id, one));
    group.memory = static_cast<double>(graph::weight_bytes_of(graph, id));
    problem.groups.push_back(std::move(group));
  }
}

planner::Value value_of(const graph::Value& value, int producer, double transfer_time) {
  planner::Value made;
  made.name = value.name;
  made.producer = producer;
  made.bytes = static_cast<double>(value.type.max_bytes().value_or(0));
  made.transfer_time = transfer_time;
  for (const auto consumer : value.consumers) {
    made.consumers.push_back(static_cast<int>(graph::index(consumer)));
  }
  return made;
}

void add_order(Problem& problem, const planner::Value& value) {
  for (const int consumer : value.consumers) problem.order.emplace_back(value.producer, consumer);
}

void add_values(Problem& problem, const Graph& graph, double transfer_time) {
  for (const auto& value : graph.values) {
    if (!value.producer || value.consumers.empty()) continue;
    auto made = value_of(value, static_cast<int>(graph::index(*value.producer)), transfer_time);
    add_order(problem, made);
    if (value.type.kind == Type::Kind::kOther) {  // Sequences and maps stay within a stage.
      auto& together = problem.colocated.emplace_back(made.consumers);
      together.push_back(made.producer);
    }
    problem.values.push_back(std::move(made));
  }
}

/// A device that has one group alone, which takes no time. \returns the group.
int add_end(Problem& problem, const std::string& name, const std::string& backend) {
  planner::DeviceType type;
  type.name = type.devices.emplace_back(name);
  type.overlap = planner::Overlap::kFullDuplex;
  problem.types.push_back(std::move(type));
  problem.modes.push_back({backend, static_cast<int>(problem.types.size()) - 1, 0});
  for (auto& group : problem.groups) group.time.push_back(planner::kInfinite);
  planner::Group end;
  end.name = name;
  end.time.assign(problem.modes.size(), planner::kInfinite);
  end.time.back() = 0;
  problem.groups.push_back(std::move(end));
  return static_cast<int>(problem.groups.size()) - 1;
}

/// What writes the inputs, and what reads the outputs.
void add_caller(Problem& problem, const Graph& graph, const GraphProblemOptions& options) {
  const int sender = add_end(problem, kCallerSends, options.backend);
  const int getter = add_end(problem, kCallerGets, options.backend);
  const double time = options.figures.seconds_per_transfer;
  for (const auto id : graph.inputs) {
    const auto& input = graph.value(id);
    if (input.consumers.empty()) continue;
    problem.values.push_back(value_of(input, sender, time));
    add_order(problem, problem.values.back());
  }
  std::map<std::string, std::size_t> made;  // Values that nodes read too.
  for (std::size_t i = 0; i < problem.values.size(); ++i) made.emplace(problem.values[i].name, i);
  for (const auto id : graph.outputs) {
    const auto& output = graph.value(id);
    if (!output.producer) continue;
    const int producer = static_cast<int>(graph::index(*output.producer));
    const auto [found, fresh] = made.emplace(output.name, problem.values.size());
    if (fresh) problem.values.push_back(value_of(output, producer, time));
    auto& consumers = problem.values[found->second].consumers;
    if (!consumers.empty() && consumers.back() == getter) continue;  // An output twice.
    consumers.push_back(getter);
    problem.order.emplace_back(producer, getter);
  }
}

/// The caller's row and column stand for both of its ends.
void add_links(Problem& problem, const std::vector<std::vector<planner::Link>>& links) {
  const std::size_t caller = links.size() - 1;
  const auto place = [&](std::size_t type) { return std::min(type, caller); };
  for (std::size_t from = 0; from < problem.types.size(); ++from) {
    auto& row = problem.links.emplace_back();
    for (std::size_t to = 0; to < problem.types.size(); ++to) {
      row.push_back(links[place(from)][place(to)]);
    }
  }
}

Result<Problem> finish(Problem problem, const Graph& graph, const GraphProblemOptions& options) {
  problem.in_seconds = true;
  for (const auto& nodes : options.together) {
    auto& groups = problem.colocated.emplace_back();
    for (const auto node : nodes) groups.push_back(static_cast<int>(graph::index(node)));
  }
  problem.frames_in_flight = std::ranges::any_of(
      problem.types, [](const auto& type) { return type.memory < planner::kInfinite; });
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

}  // namespace

Result<Problem> problem_of(const Graph& graph, const std::vector<device::Device>& devices,
                           const GraphProblemOptions& options) {
  Problem problem;
  PENSTOCK_TRY(const auto classes, classes_of(devices, options));
  PENSTOCK_CHECK_OK(add_devices(problem, classes, options.backend));
  add_groups(problem, graph, classes);
  add_values(problem, graph, options.figures.seconds_per_transfer);
  return finish(std::move(problem), graph, options);
}

Result<Site> site_beside(const std::vector<device::Device>& cpus,
                         const GraphProblemOptions& options, const std::vector<Beside>& beside) {
  Site site;
  PENSTOCK_TRY(site.classes, classes_of(cpus, options));
  const auto of_cpus = site.classes.size();
  const auto all = of_cpus + beside.size() + 1;  // The caller's memory is the host's.
  for (const auto& other : beside) site.classes.push_back(other.devices);
  const auto find = [&](std::size_t place) -> const Beside* {
    const bool is_beside = place >= of_cpus && place < of_cpus + beside.size();
    return is_beside ? &beside[place - of_cpus] : nullptr;
  };
  site.links.assign(all, std::vector<planner::Link>(all));
  for (std::size_t from = 0; from < all; ++from) {
    for (std::size_t to = 0; to < all; ++to) {
      auto& link = site.links[from][to];
      double seconds_per_byte = 0;
      const auto add = [&](const planner::Link& copy) {
        link.latency += copy.latency;
        seconds_per_byte += 1 / copy.bandwidth;
      };
      if (const auto* writer = find(from)) add(writer->back);
      if (const auto* reader = find(to)) add(reader->there);
      if (seconds_per_byte > 0) link.bandwidth = 1 / seconds_per_byte;
    }
  }
  return site;
}

Result<Problem> problem_of(const Graph& graph, const Site& site,
                           const GraphProblemOptions& options) {
  if (graph.nodes.empty()) return invalid_argument("the network has no node");
  Problem problem;
  PENSTOCK_CHECK_OK(add_devices(problem, site.classes, options.backend));
  add_groups(problem, graph, site.classes);
  add_values(problem, graph, options.figures.seconds_per_transfer);
  add_caller(problem, graph, options);
  add_links(problem, site.links);
  return finish(std::move(problem), graph, options);
}

}  // namespace penstock::cost
