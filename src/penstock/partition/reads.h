// Walking a graph by what nodes read.
#pragma once

#include "penstock/graph/graph.h"

namespace penstock::partition {

/// Calls visit(producer, value) for everything that a node reads from another node; what its nested
/// graphs capture counts.
template <typename Visit>
void for_each_producer(const graph::Graph& graph, graph::NodeId node, Visit visit) {
  const auto& reader = graph.node(node);
  for (const auto* list : {&reader.inputs, &reader.captures}) {
    for (const auto id : *list) {
      if (id == graph::ValueId::kNone) continue;
      if (const auto producer = graph.value(id).producer) visit(*producer, id);
    }
  }
}

}  // namespace penstock::partition
