// Inputs that decide which part of a network runs, in words.
#pragma once

#include <string>
#include <vector>

#include "penstock/graph/graph.h"
#include "penstock/plan/plan.h"

namespace penstock {

/// A sentence about each of graph::switches_of(), but for what a state is read by: random frames
/// give it any value, and what to do.
std::vector<std::string> warnings_of_switches(const graph::Graph& graph,
                                              const std::vector<plan::StateEdge>& states);

}  // namespace penstock
