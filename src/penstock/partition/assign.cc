// Which node runs in which stage.
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "penstock/partition/groups.h"
#include "penstock/partition/outputs.h"
#include "penstock/partition/reads.h"
#include "penstock/partition/resolve.h"
#include "penstock/partition/split.h"
#include "penstock/partition/stage_name.h"

namespace penstock::partition {
namespace {

using graph::Graph;
using graph::NodeId;

struct Cut {
  NodeId node;
  std::string text;  // As the user gave it.
};

Result<std::vector<Cut>> resolve_cuts(const Graph& graph, const std::vector<std::string>& texts) {
  std::vector<Cut> cuts;
  for (const auto& text : texts) {
    PENSTOCK_TRY(const auto node, resolve_node(graph, text, "cut"));
    cuts.push_back({node, text});
  }
  std::ranges::stable_sort(cuts, {}, &Cut::node);
  for (std::size_t i = 1; i < cuts.size(); ++i) {
    if (cuts[i].node != cuts[i - 1].node) continue;
    return invalid_argument("cut '", cuts[i].text, "': ends at node '",
                            graph.node(cuts[i].node).name, "', as cut '", cuts[i - 1].text,
                            "' does, and leaves an empty stage; give one of them");
  }
  return cuts;
}

/// The node and all of its ancestors that are not placed yet.
std::vector<NodeId> take_ancestors(const Graph& graph, NodeId node, std::vector<bool>& placed) {
  std::vector<NodeId> taken, open{node};
  placed[index(node)] = true;
  while (!open.empty()) {
    const auto at = open.back();
    open.pop_back();
    taken.push_back(at);
    for_each_producer(graph, at, [&](NodeId producer, graph::ValueId) {
      if (placed[index(producer)]) return;
      placed[index(producer)] = true;
      open.push_back(producer);
    });
  }
  std::ranges::sort(taken);
  return taken;
}

Result<Stages> stages_of_cuts(const Graph& graph, const std::vector<std::string>& texts) {
  PENSTOCK_TRY(const auto cuts, resolve_cuts(graph, texts));
  std::vector<bool> placed(graph.nodes.size(), false);
  Stages stages;
  for (const auto& cut : cuts) stages.push_back(take_ancestors(graph, cut.node, placed));
  std::vector<NodeId> rest;
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (!placed[i]) rest.push_back(static_cast<NodeId>(i));
  }
  if (rest.empty() && !cuts.empty()) {
    return invalid_argument("cut '", cuts.back().text, "': nothing is left after node '",
                            graph.node(cuts.back().node).name, "' for the last stage; cut earlier");
  }
  stages.push_back(std::move(rest));
  return stages;
}

Result<Stages> stages_of_pins(const Graph& graph, const Pins& pins) {
  Groups groups;
  groups.of_node.assign(graph.nodes.size(), -1);
  std::vector<std::string> devices;
  for (const auto& [text, device] : pins.nodes) {
    PENSTOCK_TRY(const auto node, resolve_node(graph, text, "pin"));
    const auto name = device::to_string(device);
    const auto at = std::ranges::find(devices, name) - devices.begin();
    if (static_cast<std::size_t>(at) == devices.size()) devices.push_back(name);
    auto& group = groups.of_node[index(node)];
    if (group >= 0 && group != at) {
      return invalid_argument("pin '", text, "': node '", graph.node(node).name, "' is pinned to ",
                              devices[static_cast<std::size_t>(group)], " and to ", name,
                              "; keep one");
    }
    group = static_cast<int>(at);
  }
  for (const auto& name : devices) groups.labels.push_back("device " + name);
  return order_groups(graph, std::move(groups));
}

/// Nodes of one `layer_ann` are one stage, whatever its text.
Result<Stages> stages_of_layers(const Graph& graph) {
  Groups groups;
  groups.of_node.resize(graph.nodes.size(), -1);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto found = graph.nodes[i].metadata.find("layer_ann");
    if (found == graph.nodes[i].metadata.end() || found->second.empty()) continue;
    const auto label = concat("layer_ann '", found->second, "'");
    const auto at = std::ranges::find(groups.labels, label) - groups.labels.begin();
    if (at == std::ssize(groups.labels)) groups.labels.push_back(label);
    groups.of_node[i] = static_cast<int>(at);
  }
  if (groups.labels.empty()) {
    return invalid_argument(
        "the model has no pipeline_stage annotations: expected them in its "
        "nodes' device configurations, or layer_ann in their metadata; give cuts instead");
  }
  return order_groups(graph, std::move(groups));
}

Result<Stages> stages_of_annotations(const Graph& graph) {
  std::map<int, int> numbers;  // Annotated number -> group, ascending.
  for (const int number : graph.pipeline_stages) {
    if (number >= 0) numbers.emplace(number, 0);
  }
  if (numbers.empty()) return stages_of_layers(graph);
  Groups groups;
  for (auto& [number, group] : numbers) {
    group = static_cast<int>(groups.labels.size());
    groups.labels.push_back(concat("pipeline_stage ", number));
  }
  for (const int number : graph.pipeline_stages) {
    groups.of_node.push_back(number < 0 ? -1 : numbers.at(number));
  }
  groups.of_node.resize(graph.nodes.size(), -1);
  return order_groups(graph, std::move(groups));
}

/// Node sets that together hold each node once, none reading from a later one. `names`: for
/// messages, "stage0".
Status check_order(const Graph& graph, const Stages& sets, const std::vector<std::string>& names) {
  constexpr auto kNone = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> set_of(graph.nodes.size(), kNone);
  for (std::size_t i = 0; i < sets.size(); ++i) {
    for (const auto node : sets[i]) {
      if (index(node) >= set_of.size()) {
        return invalid_argument("chosen stages: no node has index ", index(node));
      }
      auto& set = set_of[index(node)];
      if (set != kNone) {
        return invalid_argument("chosen stages: node '", graph.node(node).name, "' is in ",
                                names[set], " and in ", names[i]);
      }
      set = i;
    }
  }
  for (std::size_t i = 0; i < set_of.size(); ++i) {
    const auto node = static_cast<NodeId>(i);
    if (set_of[i] == kNone) {
      return invalid_argument("chosen stages: node '", graph.node(node).name, "' is in none");
    }
    Status order;
    for_each_producer(graph, node, [&](NodeId producer, graph::ValueId value) {
      if (set_of[index(producer)] <= set_of[i]) return;
      order =
          invalid_argument("chosen stages: ", names[set_of[i]], " reads '", graph.value(value).name,
                           "', which ", names[set_of[index(producer)]], " makes later");
    });
    PENSTOCK_CHECK_OK(std::move(order));
  }
  return {};
}

Result<Stages> stages_chosen(const Graph& graph, const std::vector<ChosenStage>& chosen) {
  Stages stages, parts;
  std::vector<std::string> stage_names, part_names;
  for (const auto& stage : chosen) {
    const auto name = stage_name(stages.size());
    std::size_t in_parts = 0;
    for (std::size_t i = 0; i < stage.parts.size(); ++i) {
      parts.push_back(stage.parts[i].nodes);
      part_names.push_back(concat("part ", i, " of ", name));
      in_parts += stage.parts[i].nodes.size();
    }
    if (stage.parts.empty()) {
      parts.push_back(stage.nodes);
      part_names.push_back(name);
    } else if (in_parts != stage.nodes.size()) {
      return invalid_argument("chosen stages: ", name, " has ", stage.nodes.size(),
                              " nodes, but its parts have ", in_parts);
    }
    stages.push_back(stage.nodes);
    stage_names.push_back(name);
    std::ranges::sort(stages.back());
  }
  PENSTOCK_CHECK_OK(check_order(graph, stages, stage_names));
  PENSTOCK_CHECK_OK(check_order(graph, parts, part_names));
  return stages;
}

}  // namespace

Result<SplitBy> split_by(std::vector<std::string> cuts,
                         std::vector<std::pair<std::string, device::Device>> pins,
                         bool annotations) {
  if (int{!cuts.empty()} + int{!pins.empty()} + int{annotations} > 1) {
    return invalid_argument(
        "expected cuts, pins or the model's annotations, found several; use one of them");
  }
  if (!pins.empty()) return SplitBy(Pins{std::move(pins)});
  if (annotations) return SplitBy(Annotations());
  return SplitBy(Cuts{std::move(cuts)});
}

Result<Stages> assign_stages(const Graph& graph, const SplitOptions& options) {
  if (const auto* chosen = std::get_if<ChosenStages>(&options.by)) {
    return stages_chosen(graph, chosen->stages);
  }
  if (const auto* pins = std::get_if<Pins>(&options.by)) return stages_of_pins(graph, *pins);
  if (const auto* cuts = std::get_if<Cuts>(&options.by)) return stages_of_cuts(graph, cuts->nodes);
  return stages_of_annotations(graph);
}

}  // namespace penstock::partition
