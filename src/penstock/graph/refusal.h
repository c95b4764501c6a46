// Refusal: what an engine will not take of a network, known before it is compiled.
#pragma once

#include <optional>

#include "penstock/base/error.h"
#include "penstock/graph/graph.h"
#include "penstock/graph/import.h"

namespace penstock::graph {

/// What the engine refuses in a graph whatever its frames hold: it lacks an operator, or has it not
/// for the types that are there. Large constants are left out for the question. None: it takes all
/// nodes, or cannot tell so; the engine is not here, or there are more nodes than 20,000.
std::optional<Error> refusal_of(const Graph& graph, const Engine& engine);

}  // namespace penstock::graph
