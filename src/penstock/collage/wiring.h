// Who reads whom among numbered nodes, and what follows for sets of them. Internal to collage.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "penstock/collage/node_set.h"
#include "penstock/graph/graph.h"

namespace penstock::collage {

/// A network without cycles; numbers follow a topological order. Quadratic in memory, by bits.
class Wiring {
 public:
  using Edge = std::pair<std::size_t, std::size_t>;  ///< From a producer to a reader.
  Wiring(std::size_t nodes, std::span<const Edge> edges);
  /// Of the graph's nodes; what nested graphs read counts.
  static Wiring of(const graph::Graph& graph);

  [[nodiscard]] std::size_t size() const { return producers_.size(); }
  [[nodiscard]] const std::vector<std::size_t>& producers(std::size_t node) const {
    return producers_[node];
  }
  [[nodiscard]] const std::vector<std::size_t>& readers(std::size_t node) const {
    return readers_[node];
  }
  /// All that a node depends on, and all that depends on it; without itself.
  [[nodiscard]] const NodeSet& before(std::size_t node) const { return before_[node]; }
  [[nodiscard]] const NodeSet& after(std::size_t node) const { return after_[node]; }

  [[nodiscard]] NodeSet none() const { return NodeSet(size()); }
  /// Nodes on the longest path inside.
  [[nodiscard]] std::size_t depth_of(const NodeSet& set) const;

 private:
  std::vector<std::vector<std::size_t>> producers_, readers_;
  std::vector<NodeSet> before_, after_;
};

/// What passes between a set of nodes and the rest of the graph.
struct Boundary {
  std::size_t exits = 0;  ///< Values made inside that are outputs or read outside.
  bool taps = false;      ///< Some of them are read inside too.
};
Boundary boundary_of(const graph::Graph& graph, const NodeSet& nodes);

}  // namespace penstock::collage
