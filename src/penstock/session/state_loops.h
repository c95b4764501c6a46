// Loops of nodes that states close: what plans keep in one stage.
#pragma once

#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/graph/graph.h"
#include "penstock/plan/plan.h"

namespace penstock {

/// The nodes of each loop that a state closes: a frame cannot begin it before the frame ahead has
/// left it, so that dividing it over stages gains nothing. And what writes a state, by itself.
std::vector<std::vector<graph::NodeId>> state_loops(const graph::Graph& graph,
                                                    const std::vector<plan::StateEdge>& states);

/// What is refused of a value of this type as a state; empty: nothing. A file holds a tensor, and
/// so what the first frame reads is one; an optional may hold it.
std::string why_no_state(const Type& type);

/// The same of all that the states begin and end at. What is not there is passed by.
/// \error kInvalidArgument  names the state.
Status check_states_are_tensors(const graph::Graph& graph,
                                const std::vector<plan::StateEdge>& states);

/// Whether each state begins at an output and ends at an input, of one type.
/// \error kNotFound  there is none of that name; kInvalidArgument  their types differ. And as
/// check_states_are_tensors().
Status check_states(const graph::Graph& graph, const std::vector<plan::StateEdge>& states);

}  // namespace penstock
