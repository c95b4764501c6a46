// Which texts the readers of an input know. Internal to graph.
#pragma once

#include "penstock/graph/graph.h"

namespace penstock::graph {

/// Gives each input of texts the keys and vocabularies of the nodes that read it, also through what
/// only moves texts, and in nested graphs (Value::words); at most 64 of them. The empty text stands
/// for those that no reader knows, where none refuses such.
void find_words(Graph& graph);

}  // namespace penstock::graph
