// Which nodes draw random numbers.
#pragma once

#include "penstock/graph/graph.h"

namespace penstock::graph {

/// Whether the node, or one of a graph nested in it at any depth, draws random numbers: then no two
/// runs give the same. A Dropout does where it trains, unless its ratio is a constant 0.
bool is_random(const Graph& graph, const Node& node);

}  // namespace penstock::graph
