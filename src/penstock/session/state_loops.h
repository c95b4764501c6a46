// Loops of nodes that states close: what plans keep in one stage.
#pragma once

#include <vector>

#include "penstock/base/result.h"
#include "penstock/graph/graph.h"
#include "penstock/plan/plan.h"

namespace penstock {

/// The nodes of each loop that a state closes: a frame cannot begin it before the frame ahead has
/// left it, so that dividing it over stages gains nothing. And what writes a state, by itself.
std::vector<std::vector<graph::NodeId>> state_loops(const graph::Graph& graph,
                                                    const std::vector<plan::StateEdge>& states);

/// Whether each state begins at an output and ends at an input, of one type.
/// \error kNotFound  there is none of that name; kInvalidArgument  their types differ.
Status check_states(const graph::Graph& graph, const std::vector<plan::StateEdge>& states);

}  // namespace penstock
