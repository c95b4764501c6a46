// Finds a path that leaves the set in one sweep in topological order, and collects the boundary.
#include "penstock/graph/subgraph.h"

#include <algorithm>
#include <unordered_set>

#include "penstock/base/words.h"

namespace penstock::graph {
namespace {

constexpr NodeId kNoNode{UINT32_MAX};

/// Calls `visit(value)` for every value the node reads: inputs, then captures.
template <typename Visit>
void for_each_read(const Node& node, Visit visit) {
  for (const auto id : node.inputs) {
    if (id != ValueId::kNone) visit(id);
  }
  for (const auto id : node.captures) visit(id);
}

/// Finds a path that leaves the set and comes back, by one sweep in topological order.
class PathFinder {
 public:
  PathFinder(const Graph& graph, const std::vector<NodeId>& nodes)
      : graph_(graph), inside_(graph.nodes.size(), false), from_(graph.nodes.size(), kNoNode) {
    for (const auto id : nodes) inside_[index(id)] = true;
  }

  /// The path's nodes, first and last inside the set; empty if the set is convex.
  std::vector<NodeId> find(std::size_t first, std::size_t last) {
    for (std::size_t i = first; i <= last; ++i) {
      const auto id = static_cast<NodeId>(i);
      const auto before = predecessor_outside_way(id);
      if (before == kNoNode) continue;
      if (inside_[i]) return path_to(id, before);
      from_[i] = before;
    }
    return {};
  }

 private:
  /// A producer through which `id` is reached from the set by way of an outside node; for an
  /// outside node also a producer in the set itself.
  NodeId predecessor_outside_way(NodeId id) const {
    NodeId found = kNoNode;
    for_each_read(graph_.node(id), [&](ValueId value) {
      const auto producer = graph_.value(value).producer;
      if (!producer) return;
      const bool producer_inside = inside_[index(*producer)];
      const bool tainted = !producer_inside && from_[index(*producer)] != kNoNode;
      if (tainted || (producer_inside && !inside_[index(id)])) found = *producer;
    });
    return found;
  }

  std::vector<NodeId> path_to(NodeId last, NodeId before) const {
    std::vector<NodeId> path{last};
    for (NodeId at = before; at != kNoNode; at = inside_[index(at)] ? kNoNode : from_[index(at)]) {
      path.push_back(at);
    }
    std::ranges::reverse(path);
    return path;
  }

  const Graph& graph_;
  std::vector<bool> inside_;
  std::vector<NodeId> from_;  // Outside nodes reached from the set: the node before on the way.
};

Error not_convex(const Graph& graph, const std::vector<NodeId>& path) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> names;
  for (const auto id : path) names.push_back(concat("'", graph.node(id).name, "'"));
  if (names.size() > kShown) {
    names.erase(names.begin() + kShown / 2, names.end() - kShown / 2);
    names.insert(names.begin() + kShown / 2, "...");
  }
  return invalid_argument("the set of nodes is not convex: a path leaves it and comes back: ",
                          join(names, " -> "), "; add the nodes between, or split the set");
}

}  // namespace

Result<Subgraph> Subgraph::create(const Graph& graph, std::span<const NodeId> nodes) {
  if (nodes.empty()) return invalid_argument("expected at least one node, found an empty set");
  Subgraph result;
  result.graph_ = &graph;
  result.nodes_.assign(nodes.begin(), nodes.end());
  std::ranges::sort(result.nodes_);
  result.nodes_.erase(std::unique(result.nodes_.begin(), result.nodes_.end()), result.nodes_.end());
  const auto last = index(result.nodes_.back());
  if (last >= graph.nodes.size()) {
    return invalid_argument("node ", last, " does not exist: the graph has ",
                            counted(graph.nodes.size(), "node"), ", numbered from 0");
  }
  const auto path = PathFinder(graph, result.nodes_).find(index(result.nodes_.front()), last);
  if (!path.empty()) return not_convex(graph, path);

  std::unordered_set<std::size_t> inside;
  for (const auto id : result.nodes_) inside.insert(index(id));
  std::unordered_set<std::size_t> seen;
  for (const auto id : result.nodes_) {
    const auto& node = graph.node(id);
    for_each_read(node, [&](ValueId read) {
      const auto& value = graph.value(read);
      if (value.producer && inside.contains(index(*value.producer))) return;
      if (!seen.insert(index(read)).second) return;
      const bool constant = value.constant && !value.is_parameter;
      (constant ? result.constants_ : result.inputs_).push_back(read);
    });
    for (const auto made : node.outputs) {
      if (made == ValueId::kNone) continue;
      const auto& value = graph.value(made);
      const bool read_outside = std::ranges::any_of(
          value.consumers, [&](NodeId consumer) { return !inside.contains(index(consumer)); });
      if (value.is_output || read_outside) result.outputs_.push_back(made);
    }
  }
  std::ranges::sort(result.constants_);
  std::stable_partition(result.inputs_.begin(), result.inputs_.end(),
                        [&](ValueId id) { return !graph.value(id).is_parameter; });
  return result;
}

Subgraph Subgraph::whole(const Graph& graph) {
  Subgraph result;
  result.graph_ = &graph;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    result.nodes_.push_back(static_cast<NodeId>(i));
  }
  result.inputs_ = graph.inputs;
  result.inputs_.insert(result.inputs_.end(), graph.parameters.begin(), graph.parameters.end());
  result.outputs_ = graph.outputs;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const auto& value = graph.values[i];
    if (value.constant && !value.is_parameter) {
      result.constants_.push_back(static_cast<ValueId>(i));
    }
  }
  return result;
}

}  // namespace penstock::graph
