#include "penstock/build/plans.h"

#include <algorithm>
#include <iterator>

#include "penstock/session/plan_model.h"

namespace penstock::build {
namespace {

using graph::NodeId;

/// What of the cover lies in the stage; `nodes` ascending.
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

partition::SplitOptions one_stage(const graph::Graph& graph, const Cover& cover,
                                  std::vector<device::Device> devices) {
  partition::SplitOptions split;
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

partition::SplitOptions on_each(const graph::Graph& graph, const Cover& cover,
                                const std::vector<device::Device>& devices) {
  return one_stage(graph, cover, devices);
}

partition::SplitOptions on_all(const graph::Graph& graph, const Cover& cover,
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

Result<Planned> pipelined(const graph::Graph& graph, const Cover& cover,
                          const std::vector<device::Device>& devices,
                          const Measurements& measurements, bool replicas, double search_seconds) {
  PlanModelOptions options;
  options.devices = devices;
  options.costs.node_seconds = measurements.node_seconds;
  options.costs.figures = measurements.figures;
  options.costs.measured_cpus = static_cast<int>(devices.front().cpus.size());
  options.search.replicas = replicas;
  options.search.seconds = search_seconds;
  PENSTOCK_TRY(const auto planned, plan_model(graph, options));
  Planned made;
  PENSTOCK_TRY(made.split, split_options_of(planned));
  made.period_seconds = planned.answer.evaluation.period;
  for (auto& stage : made.split.stages) {
    std::ranges::sort(stage.nodes);
    stage.parts = parts_within(cover, stage.nodes);
  }
  return made;
}

void correct(std::vector<double>& node_seconds, const Place& place,
             const partition::SplitOptions& split, const std::vector<double>& stage_seconds) {
  const auto cpus_of = [](const device::Device& device) {
    return static_cast<int>(device.cpus.size());
  };
  const int measured = cpus_of(place.devices.front());
  for (std::size_t i = 0; i < split.stages.size() && i < stage_seconds.size(); ++i) {
    const int cpus = cpus_of(split.stages[i].devices.front());
    double sum = 0;
    for (const auto node : split.stages[i].nodes) {
      double seconds = node_seconds[graph::index(node)];
      if (cpus != measured) {
        seconds *= cost::node_seconds(place.graph, node, {}, cpus) /
                   cost::node_seconds(place.graph, node, {}, measured);
      }
      sum += seconds;
    }
    if (sum <= 0 || stage_seconds[i] <= 0) continue;
    for (const auto node : split.stages[i].nodes) {
      node_seconds[graph::index(node)] *= stage_seconds[i] / sum;
    }
  }
}

}  // namespace penstock::build
