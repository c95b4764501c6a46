// Which whole numbers an input may hold, as far as its readers tell. Internal to graph.
#pragma once

#include "penstock/graph/graph.h"

namespace penstock::graph {

/// Gives each input the whole numbers that all its readers take (Value::range): an index stays
/// inside its axis, a length is one that fits, a mask is 0 or 1. Walks from the readers back
/// through what only moves, copies or shifts numbers, into nested graphs too. Inputs that nothing
/// restricts keep none. \pre  types are inferred, constants folded.
void find_ranges(Graph& graph);

}  // namespace penstock::graph
