// What a rule yields on a graph, node by node. Internal to collage.
#pragma once

#include <vector>

#include "penstock/collage/closure.h"
#include "penstock/collage/rules.h"
#include "penstock/collage/wiring.h"

namespace penstock::collage {

struct Found {
  NodeSet nodes;
  bool host = false;
};

class Yields {
 public:
  /// Borrows both.
  Yields(const graph::Graph& graph, const Wiring& wiring) : graph_(&graph), wiring_(&wiring) {}

  /// Each set once, a host one before its like.
  [[nodiscard]] std::vector<Found> of(const Rule& rule, const ClosureLimits& limits) const;
  /// What `combine` begins with: of() without any combining.
  [[nodiscard]] std::vector<NodeSet> beginnings(const Rule& rule) const;
  /// The limits that kOnlyValid sets, on exits, taps, nodes and depth.
  [[nodiscard]] bool valid(const Rule& rule, const NodeSet& nodes) const;

 private:
  [[nodiscard]] std::vector<Found> single(const Rule& rule) const;
  [[nodiscard]] std::vector<Found> chains(const Rule& rule) const;
  [[nodiscard]] std::vector<Found> combined(const Rule& rule, const ClosureLimits& limits) const;

  const graph::Graph* graph_;
  const Wiring* wiring_;
};

}  // namespace penstock::collage
