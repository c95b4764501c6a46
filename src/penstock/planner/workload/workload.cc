// Groups nodes by colour, order and idleness, then builds types, values and order from the file.
#include "penstock/planner/workload/workload.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "penstock/planner/problem/components.h"
#include "penstock/planner/problem/index.h"
#include "penstock/planner/workload/workload_file.h"

namespace penstock::planner {
namespace {

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

/// What decides whether a group is idle: it costs no time and hangs on one other group.
struct Neighbours {
  int node = 0;  ///< One of the group's.
  double time = 0, bytes = 0;
  bool backward = false;  ///< A forward node of it has an edge with a backward node.
  std::set<int> forward;  ///< Groups that its forward nodes have edges with.

  [[nodiscard]] bool idle() const { return time == 0 && !backward && forward.size() == 1; }
};

std::vector<Neighbours> neighbours_of(const WorkloadFile& file, const std::vector<int>& group) {
  std::vector<Neighbours> groups(at(1 + *std::ranges::max_element(group)));
  for (std::size_t n = 0; n < file.nodes.size(); ++n) {
    auto& own = groups[at(group[n])];
    own.node = static_cast<int>(n);
    for (const double time : file.nodes[n].times) own.time += time;
    own.bytes += file.nodes[n].bytes;
  }
  for (const auto& edge : file.edges) {
    for (const auto& [one, other] :
         {std::pair(edge.from, edge.to), std::pair(edge.to, edge.from)}) {
      auto& own = groups[at(group[at(one)])];
      if (file.nodes[at(one)].backward) continue;
      if (file.nodes[at(other)].backward) {
        own.backward = true;
      } else if (group[at(one)] != group[at(other)]) {
        own.forward.insert(group[at(other)]);
      }
    }
  }
  return groups;
}

/// Whether some accelerator that is there cannot hold everything.
bool memory_may_bind(const WorkloadFile& file) {
  double bytes = 0;
  for (const auto& node : file.nodes) bytes += node.bytes;
  return std::ranges::any_of(
      file.types, [&](const WorkloadType& type) { return type.count > 0 && bytes > type.memory; });
}

/// Nodes of each idle group with one of the group that it hangs on: Tarnawski et al.'s own reader
/// takes them as one, and so do the published optima. Where both together fit no accelerator they
/// stay two.
Arcs idle_pairs(const WorkloadFile& file, const std::vector<int>& group) {
  auto groups = neighbours_of(file, group);
  double memory = 0;  // Of the largest accelerator.
  for (const auto& type : file.types) {
    if (type.pays_transfers) memory = std::max(memory, type.memory);
  }
  std::vector<int> open;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].idle()) open.push_back(static_cast<int>(g));
  }
  Arcs pairs;
  while (!open.empty()) {
    const int leaf = open.back();
    open.pop_back();
    if (!groups[at(leaf)].idle()) continue;  // Its neighbour hung on it, and is gone.
    const int stem = *groups[at(leaf)].forward.begin();
    if (groups[at(leaf)].bytes + groups[at(stem)].bytes > memory) continue;
    groups[at(stem)].bytes += groups[at(leaf)].bytes;
    pairs.emplace_back(groups[at(leaf)].node, groups[at(stem)].node);
    groups[at(leaf)].forward.clear();
    groups[at(stem)].forward.erase(leaf);
    if (groups[at(stem)].idle()) open.push_back(stem);
  }
  return pairs;
}

/// A circle keeps each pair together, with all that lies between.
void tie(const Arcs& pairs, Arcs& arcs) {
  for (const auto& [node, other] : pairs) {
    arcs.emplace_back(node, other);
    arcs.emplace_back(other, node);
  }
}

/// Each backward node with the first forward node of its colour.
Arcs backward_pairs(const WorkloadFile& file) {
  std::unordered_map<std::int64_t, int> first;  // Forward node of each colour.
  for (int n = 0; n < static_cast<int>(file.nodes.size()); ++n) {
    const auto& node = file.nodes[at(n)];
    if (node.colour && !node.backward) first.emplace(*node.colour, n);
  }
  Arcs pairs;
  for (int n = 0; n < static_cast<int>(file.nodes.size()); ++n) {
    const auto& node = file.nodes[at(n)];
    if (!node.colour || !node.backward || !first.contains(*node.colour)) continue;
    pairs.emplace_back(n, first[*node.colour]);
  }
  return pairs;
}

struct Grouping {
  std::vector<int> group;  ///< [node] 0 .. count-1, in a topological order of the forward nodes.
  std::size_t joined = 0;  ///< Idle groups that went into others.
};

Grouping group_nodes(const WorkloadFile& file, const WorkloadOptions& options) {
  const int nodes = static_cast<int>(file.nodes.size());
  Arcs arcs = pipeline_arcs(file);
  // With the latency goal each node is a group, for on cores each starts when it can.
  if (options.goal == Goal::kLatency) return {strong_components(nodes, arcs)};
  if (!options.one_stage) {
    // Any stage of a device may have a node. Order binds no backward one: nothing is lost where it
    // goes with a forward one.
    tie(backward_pairs(file), arcs);
    return {strong_components(nodes, arcs)};
  }
  tie(colour_pairs(file), arcs);
  Grouping grouping{strong_components(nodes, arcs)};
  if (!options.join_idle || !memory_may_bind(file)) return grouping;
  const auto pairs = idle_pairs(file, grouping.group);
  tie(pairs, arcs);
  return {strong_components(nodes, arcs), pairs.size()};
}

void put_colocated(const WorkloadFile& file, const std::vector<int>& group, Problem& problem) {
  for (const auto& [node, other] : colour_pairs(file)) {
    if (group[at(node)] == group[at(other)]) continue;
    problem.colocated.push_back({group[at(other)], group[at(node)]});
  }
}

/// Adds a mode of the type last added; `column`: of the nodes' times.
void put_mode(const WorkloadFile& file, const std::vector<int>& group, const WorkloadMode& mode,
              std::size_t column, Problem& problem) {
  for (auto& to : problem.groups) to.time.push_back(0);
  for (std::size_t n = 0; n < group.size(); ++n) {
    problem.groups[at(group[n])].time.back() += file.nodes[n].times[column];
  }
  problem.modes.push_back({mode.name, static_cast<int>(problem.types.size()) - 1, mode.launch});
}

/// Types, and what groups cost in their modes; types without devices are left out.
void put_types(const WorkloadFile& file, const std::vector<int>& group, Goal goal,
               Problem& problem) {
  std::size_t column = 0;
  for (const auto& from : file.types) {
    const auto first = column;
    column += std::max<std::size_t>(1, from.modes.size());
    if (from.count == 0) continue;
    DeviceType type;
    type.name = from.name;
    type.memory = from.memory;
    type.pays_transfers = from.pays_transfers;
    type.unlimited = goal == Goal::kLatency && !from.pays_transfers;
    for (int i = 0; i < from.count && !type.unlimited; ++i) {
      type.devices.push_back(concat(type.name, ":", i));
    }
    problem.types.push_back(std::move(type));
    if (from.modes.empty()) put_mode(file, group, {from.name, 0}, first, problem);
    for (std::size_t m = 0; m < from.modes.size(); ++m) {
      put_mode(file, group, from.modes[m], first + m, problem);
    }
  }
}

void put_groups(const WorkloadFile& file, const std::vector<int>& group, Problem& problem) {
  problem.groups.resize(at(1 + *std::ranges::max_element(group)));
  for (std::size_t n = 0; n < file.nodes.size(); ++n) {
    const auto& node = file.nodes[n];
    const auto g = at(group[n]);
    problem.groups[g].memory += node.bytes;
    if (problem.groups[g].nodes.empty()) problem.groups[g].name = shown(node);
    problem.groups[g].nodes.push_back(node.id);
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

/// Makes the changes that the options ask for.
Status change(const WorkloadOptions& options, WorkloadFile& file) {
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
  if (!file.own_types) {
    auto &accelerators = file.types[0], &cpus = file.types[1];
    accelerators.count = options.devices.value_or(accelerators.count);
    accelerators.memory = options.memory.value_or(accelerators.memory);
    cpus.count = options.cpus.value_or(cpus.count);
  } else if (options.devices || options.cpus || options.memory) {
    return invalid_argument("the workload names its devices in 'deviceTypes'; change them there");
  }
  return {};
}

/// Every node needs a device.
Status check_support(const WorkloadFile& file) {
  const auto has_devices = [](const WorkloadType& type) { return type.count > 0; };
  if (std::ranges::none_of(file.types, has_devices)) {
    return invalid_argument("there is no device to plan for");
  }
  if (file.own_types || file.types[1].count > 0) return {};  // validate() knows the rest.
  for (const auto& node : file.nodes) {
    if (node.times[0] < kInfinite) continue;
    return invalid_argument(shown(node), ": no accelerator supports it and there is no CPU");
  }
  return {};
}

Result<Problem> to_problem(const WorkloadFile& file, const WorkloadOptions& options) {
  Problem problem;
  const auto [group, joined] = group_nodes(file, options);
  if (joined > 0) {
    problem.notes.push_back(concat(
        joined, " node(s) without time stay with the only node that each has edges with, as ",
        "the published optima take it; with memory this scarce a better plan may part them"));
    problem.scope = "that keeps nodes without time with their only neighbour";
  }
  put_groups(file, group, problem);
  put_types(file, group, options.goal, problem);
  put_colocated(file, group, problem);
  put_values(file, group, options.communication_factor, problem);
  PENSTOCK_CHECK_OK(validate(problem));
  return problem;
}

}  // namespace

Result<Problem> parse_workload(std::string_view text, const WorkloadOptions& options) {
  PENSTOCK_TRY(auto file, parse_workload_file(text));
  PENSTOCK_CHECK_OK(change(options, file));
  PENSTOCK_CHECK_OK(check_graph(file));
  PENSTOCK_CHECK_OK(check_support(file));
  auto problem = to_problem(file, options);
  if (problem || !options.join_idle) return problem;
  auto free = options;  // Joined, some may have lost the only device that is large enough.
  free.join_idle = false;
  return to_problem(file, free);
}

Result<Problem> read_workload(const std::filesystem::path& path, const WorkloadOptions& options) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return invalid_argument("'", path.string(), "': expected a file, found a folder");
  }
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) return not_found("'", path.string(), "': cannot be read; check the path");
  auto problem = parse_workload(text, options);
  if (!problem) return std::move(problem).error().within({Where::kFile, path.string()});
  return problem;
}

}  // namespace penstock::planner
