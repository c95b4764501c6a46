// Whole-network plans, pipelines by the planner, and corrected costs.
#include "penstock/tune/plans.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "penstock/base/words.h"
#include "penstock/session/plan_model.h"

namespace penstock::tune {
namespace {

using graph::NodeId;

double weights_of(const graph::Graph& graph) {
  double weights = 0;
  for (const auto id : all_nodes(graph)) {
    weights += static_cast<double>(graph::weight_bytes_of(graph, id));
  }
  return weights;
}

partition::ChosenStages one_stage(const graph::Graph& graph, const Cover& cover,
                                  std::vector<device::Device> devices) {
  partition::ChosenStages split;
  split.stages.push_back({all_nodes(graph), std::move(devices), cover});
  return split;
}

}  // namespace

std::vector<NodeId> all_nodes(const graph::Graph& graph) {
  std::vector<NodeId> nodes(graph.nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i] = static_cast<NodeId>(i);
  return nodes;
}

std::vector<double> analytic_seconds(const graph::Graph& graph, std::size_t cpus) {
  std::vector<double> seconds;
  for (const auto id : all_nodes(graph)) {
    seconds.push_back(cost::node_seconds(graph, id, {}, static_cast<int>(cpus)));
  }
  return seconds;
}

Cover whole_cover(const graph::Graph& graph, const Way& way) {
  return {{way.backend, way.options, all_nodes(graph)}};
}

device::Device union_of(const std::vector<device::Device>& devices) {
  device::Device all;
  for (const auto& device : devices) {
    all.cpus.insert(all.cpus.end(), device.cpus.begin(), device.cpus.end());
  }
  std::ranges::sort(all.cpus);
  return all;
}

partition::ChosenStages on_each(const graph::Graph& graph, const Cover& cover,
                                const std::vector<device::Device>& devices) {
  return one_stage(graph, cover, devices);
}

partition::ChosenStages on_all(const graph::Graph& graph, const Cover& cover,
                               const std::vector<device::Device>& devices) {
  return one_stage(graph, cover, {union_of(devices)});
}

Cover merge_neighbours(const Cover& cover) {
  Cover merged;
  for (const auto& part : cover) {
    if (merged.empty() || way_of(merged.back()) != way_of(part)) {
      merged.push_back(part);
      continue;
    }
    auto& nodes = merged.back().nodes;
    nodes.insert(nodes.end(), part.nodes.begin(), part.nodes.end());
    std::ranges::sort(nodes);
  }
  return merged;
}

std::string backends_in(const Cover& cover) {
  std::vector<std::string> ways;
  for (const auto& part : cover) {
    auto way = way_of(part).name();
    if (std::ranges::find(ways, way) == ways.end()) ways.push_back(std::move(way));
  }
  return join(ways, "+", [](const std::string& name) { return name; });
}

std::string name_of(const Cover& cover) {
  const auto names = backends_in(cover);
  return cover.size() == 1 ? names : concat(names, " in ", cover.size(), " parts");
}

std::string name_of(const Cover& cover, const partition::ChosenStages& split, std::size_t plan) {
  return concat(backends_in(cover), " in ", counted(split.stages.size(), "stage"), ", plan ", plan);
}

double memory_share(const graph::Graph& graph, std::size_t devices, double host_bytes) {
  const auto count = static_cast<double>(devices);
  return weights_of(graph) * count <= host_bytes ? kUnlimited : host_bytes / count;
}

std::vector<partition::ChosenPart> parts_within(const Cover& cover,
                                                const std::vector<NodeId>& nodes) {
  std::vector<partition::ChosenPart> parts;
  for (const auto& part : cover) {
    partition::ChosenPart inside{part.backend, part.options, {}};
    auto of_part = part.nodes;
    std::ranges::sort(of_part);
    std::ranges::set_intersection(of_part, nodes, std::back_inserter(inside.nodes));
    if (!inside.nodes.empty()) parts.push_back(std::move(inside));
  }
  return parts;
}

cost::GraphProblemOptions costs_for(const Place& place, const Measurements& measurements,
                                    double device_memory, bool pin_loops) {
  cost::GraphProblemOptions costs;
  costs.node_seconds = measurements.node_seconds;
  costs.figures = measurements.figures;
  costs.measured_cpus = static_cast<int>(place.devices.front().cpus.size());
  costs.together = measurements.loops;
  costs.memory = device_memory;
  costs.paces = place.paces;
  if (!pin_loops) return costs;
  const auto& fastest = *std::ranges::min_element(place.devices, {}, [&](const auto& device) {
    return place.seconds_on(device, all_nodes(place.graph), measurements.node_seconds);
  });
  for (const auto& loop : measurements.loops) {
    for (const auto node : loop) costs.pins.emplace_back(node, fastest);
  }
  return costs;
}

namespace {

/// The best where each device may hold so many bytes.
Result<Planned> best_within(const Place& place, const Cover& cover,
                            const Measurements& measurements, double device_memory, bool replicas,
                            double search_seconds) {
  PlanModelOptions options;
  options.devices = place.devices;
  options.costs = costs_for(place, measurements, device_memory, replicas);
  options.search.replicas = replicas;
  options.search.seconds = search_seconds;
  PENSTOCK_TRY(const auto planned, plan_model(place.graph, options));
  Planned made;
  PENSTOCK_TRY(made.split, chosen_stages_of(planned));
  made.period_seconds = planned.answer.evaluation.period;
  for (auto& stage : made.split.stages) {
    std::ranges::sort(stage.nodes);
    stage.parts = parts_within(cover, stage.nodes);
  }
  return made;
}

/// Searches plans that the host holds, by what devices may hold.
class HostSearch {
 public:
  HostSearch(const Place& place, const Cover& cover, const Measurements& measurements,
             double search_seconds)
      : place_(place),
        cover_(cover),
        measurements_(measurements),
        seconds_(search_seconds / (kHalvings + 2)) {}

  Result<Planned> run() {
    PENSTOCK_CHECK_OK(try_with(kUnlimited, false));
    double high = weights_of(place_.graph);
    const auto devices = static_cast<double>(place_.devices.size());
    double low = std::clamp(measurements_.memory.bytes / devices, heaviest_node(), high);
    PENSTOCK_CHECK_OK(try_with(low, true));
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (low + high) / 2;
      PENSTOCK_TRY(const bool held, try_with(middle, true));
      (held ? low : high) = middle;
    }
    if (best_) return *std::move(best_);
    return make_error(Code::kFailedPrecondition, "the host has room for ",
                      measurements_.memory.bytes, " bytes of weights, the network has ",
                      weights_of(place_.graph));
  }

 private:
  static constexpr int kHalvings = 4;

  /// A device that does not hold it is of no use.
  [[nodiscard]] double heaviest_node() const {
    double most = 0;
    for (const auto id : all_nodes(place_.graph)) {
      most = std::max(most, static_cast<double>(graph::weight_bytes_of(place_.graph, id)));
    }
    return most;
  }

  /// Whether the host holds the best of these plans; also where there is none, as more is allowed
  /// then.
  Result<bool> try_with(double device_memory, bool replicas) {
    auto planned = best_within(place_, cover_, measurements_, device_memory, replicas, seconds_);
    if (!planned && planned.error().code == Code::kFailedPrecondition) return true;
    if (!planned) return std::move(planned).error();
    const auto& memory = measurements_.memory;
    if (memory.copies.bytes_of(place_.graph, planned->split) > memory.bytes) return false;
    if (!best_ || planned->period_seconds < best_->period_seconds) best_ = *std::move(planned);
    return true;
  }

  const Place& place_;
  const Cover& cover_;
  const Measurements& measurements_;
  const double seconds_;  // Of one search.
  std::optional<Planned> best_;
};

}  // namespace

Result<Planned> pipelined(const Place& place, const Cover& cover, const Measurements& measurements,
                          bool replicas, double search_seconds) {
  const auto& memory = measurements.memory;
  PENSTOCK_TRY(auto planned,
               best_within(place, cover, measurements, kUnlimited, replicas, search_seconds));
  if (memory.copies.bytes_of(place.graph, planned.split) <= memory.bytes) return planned;
  return HostSearch(place, cover, measurements, search_seconds).run();
}

double Place::pace_of(const device::Device& device) const {
  const auto found = std::ranges::find(devices, device);
  const auto number = static_cast<std::size_t>(found - devices.begin());
  return number < paces.size() ? paces[number] : 1;
}

double Place::seconds_on(const device::Device& device, const std::vector<NodeId>& nodes,
                         const std::vector<double>& node_seconds) const {
  const auto measured = static_cast<int>(devices.front().cpus.size());
  const auto cpus = std::max(1, static_cast<int>(device.cpus.size()));
  double sum = 0;
  for (const auto node : nodes) {
    double seconds = node_seconds[graph::index(node)];
    if (cpus != measured) {
      seconds *=
          cost::node_seconds(graph, node, {}, cpus) / cost::node_seconds(graph, node, {}, measured);
    }
    sum += seconds;
  }
  return sum * pace_of(device);
}

void correct(std::vector<double>& node_seconds, const Place& place,
             const partition::ChosenStages& split, const std::vector<double>& stage_seconds) {
  for (std::size_t i = 0; i < split.stages.size() && i < stage_seconds.size(); ++i) {
    const auto& stage = split.stages[i];
    const double sum = place.seconds_on(stage.devices.front(), stage.nodes, node_seconds);
    if (sum <= 0 || stage_seconds[i] <= 0) continue;
    for (const auto node : stage.nodes) {
      node_seconds[graph::index(node)] *= stage_seconds[i] / sum;
    }
  }
}

void bring_to_stages(std::vector<double>& node_seconds, const Place& place,
                     const partition::ChosenStages& split,
                     const std::vector<double>& stage_seconds) {
  for (std::size_t i = 0; i < split.stages.size(); ++i) {
    const auto& stage = split.stages[i];
    double sum = 0;
    for (const auto node : stage.nodes) {
      auto& seconds = node_seconds[graph::index(node)];
      seconds = place.seconds_on(stage.devices.front(), {node}, node_seconds);
      sum += seconds;
    }
    const double measured = i < stage_seconds.size() ? stage_seconds[i] : 0;
    if (sum <= 0 || measured <= 0) continue;
    for (const auto node : stage.nodes) node_seconds[graph::index(node)] *= measured / sum;
  }
}

}  // namespace penstock::tune
