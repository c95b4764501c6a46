// Ancestors and descendants as bit sets, one pass each; the depth of a set and its exits and taps.
#include "penstock/collage/wiring.h"

#include <algorithm>

namespace penstock::collage {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

Wiring::Wiring(std::size_t nodes, std::span<const Edge> edges)
    : producers_(nodes), readers_(nodes), before_(nodes, NodeSet(nodes)), after_(before_) {
  for (const auto& [from, to] : edges) {
    producers_[to].push_back(from);
    readers_[from].push_back(to);
  }
  for (std::size_t i = 0; i < nodes; ++i) {
    for (auto* const list : {&producers_[i], &readers_[i]}) {
      std::ranges::sort(*list);
      list->erase(std::ranges::unique(*list).begin(), list->end());
    }
    for (const auto from : producers_[i]) {
      before_[i] |= before_[from];
      before_[i].add(from);
    }
  }
  for (std::size_t i = nodes; i-- > 0;) {
    for (const auto to : readers_[i]) {
      after_[i] |= after_[to];
      after_[i].add(to);
    }
  }
}

Wiring Wiring::of(const Graph& graph) {
  std::vector<Edge> edges;
  for (const auto& value : graph.values) {
    if (!value.producer) continue;
    for (const auto consumer : value.consumers) {
      edges.emplace_back(index(*value.producer), index(consumer));
    }
  }
  return {graph.nodes.size(), edges};
}

std::size_t Wiring::depth_of(const NodeSet& set) const {
  std::vector<std::size_t> depths(size(), 0);
  std::size_t most = 0;
  set.each([&](std::size_t node) {
    std::size_t above = 0;
    for (const auto from : producers_[node]) {
      if (set.has(from)) above = std::max(above, depths[from]);
    }
    depths[node] = above + 1;
    most = std::max(most, depths[node]);
  });
  return most;
}

Boundary boundary_of(const Graph& graph, const NodeSet& nodes) {
  Boundary boundary;
  nodes.each([&](std::size_t i) {
    for (const auto id : graph.nodes[i].outputs) {
      if (id == ValueId::kNone) continue;
      const auto& value = graph.value(id);
      const auto inside = static_cast<std::size_t>(std::ranges::count_if(
          value.consumers, [&](NodeId consumer) { return nodes.has(index(consumer)); }));
      if (!value.is_output && inside == value.consumers.size()) continue;
      ++boundary.exits;
      boundary.taps = boundary.taps || inside > 0;
    }
  });
  return boundary;
}

}  // namespace penstock::collage
