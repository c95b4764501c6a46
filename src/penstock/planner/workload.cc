#include "penstock/planner/workload.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include "penstock/planner/components.h"
#include "penstock/planner/workload_file.h"

namespace penstock::planner {
namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

/// For each node whether it shares its colour with no forward node though it is a backward one, as
/// the sum of two gradients.
std::vector<bool> find_orphans(const WorkloadFile& file) {
  std::unordered_set<std::int64_t> forward;
  for (const auto& node : file.nodes) {
    if (!node.backward && node.colour) forward.insert(*node.colour);
  }
  std::vector<bool> orphans;
  for (const auto& node : file.nodes) {
    orphans.push_back(node.backward && !(node.colour && forward.contains(*node.colour)));
  }
  return orphans;
}

/// The edges that a pipeline must respect: those between forward nodes; and, the other way round,
/// those of orphans with backward nodes, for the backward pass meets the stages in reverse. (An
/// orphan gets a forward image with its edges mirrored: Tarnawski et al., on training.)
Arcs pipeline_arcs(const WorkloadFile& file) {
  const auto orphans = find_orphans(file);
  Arcs arcs;
  for (const auto& edge : file.edges) {
    const auto &from = file.nodes[at(edge.from)], &to = file.nodes[at(edge.to)];
    if (!from.backward && !to.backward) arcs.emplace_back(edge.from, edge.to);
    const bool orphan = orphans[at(edge.from)] || orphans[at(edge.to)];
    if (from.backward && to.backward && orphan) arcs.emplace_back(edge.to, edge.from);
  }
  return arcs;
}

/// Each node with the first node of its colour, where it is another.
Arcs colour_pairs(const WorkloadFile& file) {
  Arcs pairs;
  std::unordered_map<std::int64_t, int> first;  // Of each colour.
  for (int n = 0; n < static_cast<int>(file.nodes.size()); ++n) {
    const auto& colour = file.nodes[at(n)].colour;
    if (!colour) continue;
    const int other = first.emplace(*colour, n).first->second;
    if (other != n) pairs.emplace_back(n, other);
  }
  return pairs;
}

/// For each node the index of its group, 0 .. count-1, in a topological order of the forward nodes.
/// With the latency goal each node is a group, for on cores each starts when it can.
std::vector<int> group_nodes(const WorkloadFile& file, Goal goal) {
  Arcs arcs = pipeline_arcs(file);
  for (const auto& [node, other] : goal == Goal::kLatency ? Arcs() : colour_pairs(file)) {
    arcs.emplace_back(node, other);  // A circle keeps them together, with all that lies between.
    arcs.emplace_back(other, node);
  }
  return strong_components(static_cast<int>(file.nodes.size()), arcs);
}

void put_colocated(const WorkloadFile& file, const std::vector<int>& group, Problem& problem) {
  for (const auto& [node, other] : colour_pairs(file)) {
    if (group[at(node)] == group[at(other)]) continue;
    problem.colocated.push_back({group[at(other)], group[at(node)]});
  }
}

void put_type(Problem& problem, const std::string& name, int count, double memory) {
  DeviceType type;
  type.name = name;
  for (int i = 0; i < count; ++i) type.devices.push_back(concat(name, ":", i));
  type.memory = memory;
  problem.modes.push_back({name, static_cast<int>(problem.types.size()), 0});
  problem.types.push_back(std::move(type));
}

void put_groups(const WorkloadFile& file, const std::vector<int>& group, Problem& problem) {
  const int groups = 1 + *std::ranges::max_element(group);
  std::vector<double> accelerator(at(groups), 0), cpu(at(groups), 0);
  problem.groups.resize(at(groups));
  for (std::size_t n = 0; n < file.nodes.size(); ++n) {
    const auto& node = file.nodes[n];
    const auto g = at(group[n]);
    accelerator[g] += node.accelerated ? node.accelerator_time : kInfinite;
    cpu[g] += node.cpu_time;
    problem.groups[g].memory += node.bytes;
    if (problem.groups[g].nodes.empty()) problem.groups[g].name = shown(node);
    problem.groups[g].nodes.push_back(node.id);
  }
  for (std::size_t g = 0; g < problem.groups.size(); ++g) {
    for (const auto& mode : problem.modes) {
      const bool pays = problem.types[at(mode.type)].pays_transfers;
      problem.groups[g].time.push_back(pays ? accelerator[g] : cpu[g]);
    }
  }
}

void put_values(const WorkloadFile& file, const std::vector<int>& group, double factor,
                Problem& problem) {
  std::vector<Value> values(file.nodes.size());
  for (const auto& edge : file.edges) {
    const int from = group[at(edge.from)], to = group[at(edge.to)];
    if (from == to) continue;
    auto& value = values[at(edge.from)];
    value.consumers.push_back(to);
    value.bytes = std::max(value.bytes, edge.bytes);
    value.transfer_time = edge.cost * factor;
  }
  for (const auto& [before, after] : pipeline_arcs(file)) {
    const int from = group[at(before)], to = group[at(after)];
    if (from != to) problem.order.emplace_back(from, to);
  }
  std::ranges::sort(problem.order);
  const auto twice = std::ranges::unique(problem.order);
  problem.order.erase(twice.begin(), twice.end());
  for (std::size_t n = 0; n < values.size(); ++n) {
    auto& value = values[n];
    if (value.consumers.empty()) continue;
    std::ranges::sort(value.consumers);
    const auto again = std::ranges::unique(value.consumers);
    value.consumers.erase(again.begin(), again.end());
    value.producer = group[n];
    value.name = shown(file.nodes[n]);
    problem.values.push_back(std::move(value));
  }
}

Status check_graph(const WorkloadFile& file) {
  Arcs arcs;
  for (const auto& edge : file.edges) arcs.emplace_back(edge.from, edge.to);
  const auto circle = find_circle(static_cast<int>(file.nodes.size()), arcs);
  if (circle.empty()) return {};
  return invalid_argument("the graph is cyclic: ", shown(file.nodes[at(circle.front())]),
                          " needs its own result through ", circle.size(), " node(s)");
}

Status check_options(const WorkloadOptions& options) {
  if (options.devices.value_or(0) < 0 || options.cpus.value_or(0) < 0) {
    return invalid_argument("expected 0 or more devices, found ",
                            std::min(options.devices.value_or(0), options.cpus.value_or(0)));
  }
  if (!(options.memory.value_or(0) >= 0)) {
    return invalid_argument("expected memory of 0 or more bytes, found ", *options.memory);
  }
  if (!(options.communication_factor >= 0) || !std::isfinite(options.communication_factor)) {
    return invalid_argument("expected a communication factor of 0 or more, found ",
                            options.communication_factor);
  }
  return {};
}

/// Every node needs a device, and all of them memory.
Status check_support(const WorkloadFile& file) {
  if (file.cpus > 0) return {};
  if (file.accelerators == 0) return invalid_argument("there is no device to plan for");
  double bytes = 0;
  for (const auto& node : file.nodes) {
    bytes += node.bytes;
    if (node.accelerated) continue;
    return invalid_argument(shown(node), ": no accelerator supports it and there is no CPU");
  }
  if (bytes <= file.memory * file.accelerators) return {};
  return invalid_argument("the nodes need ", bytes, " bytes together, ", file.accelerators,
                          " accelerators of ", file.memory,
                          " bytes hold less, and there is no CPU");
}

Result<Problem> to_problem(const WorkloadFile& file, const WorkloadOptions& options) {
  Problem problem;
  if (file.accelerators > 0) put_type(problem, "accelerator", file.accelerators, file.memory);
  if (file.cpus > 0) {
    const bool unlimited = options.goal == Goal::kLatency;
    put_type(problem, "cpu", unlimited ? 0 : file.cpus, kInfinite);
    problem.types.back().unlimited = unlimited;
    problem.types.back().pays_transfers = false;
  }
  const auto group = group_nodes(file, options.goal);
  put_groups(file, group, problem);
  put_colocated(file, group, problem);
  put_values(file, group, options.communication_factor, problem);
  PENSTOCK_CHECK_OK(validate(problem));
  return problem;
}

}  // namespace

Result<Problem> parse_workload(std::string_view text, const WorkloadOptions& options) {
  PENSTOCK_CHECK_OK(check_options(options));
  PENSTOCK_TRY(auto file, parse_workload_file(text));
  file.accelerators = options.devices.value_or(file.accelerators);
  file.cpus = options.cpus.value_or(file.cpus);
  file.memory = options.memory.value_or(file.memory);
  PENSTOCK_CHECK_OK(check_graph(file));
  PENSTOCK_CHECK_OK(check_support(file));
  return to_problem(file, options);
}

Result<Problem> read_workload(const std::filesystem::path& path, const WorkloadOptions& options) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in || std::filesystem::is_directory(path)) {
    return not_found("'", path.string(), "': cannot be read");
  }
  auto problem = parse_workload(text, options);
  if (!problem) return std::move(problem).error().within("'" + path.string() + "'");
  return problem;
}

}  // namespace penstock::planner
