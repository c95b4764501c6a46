// Which sizes of open dimensions a network takes. Internal to graph.
#pragma once

#include "penstock/graph/graph.h"

namespace penstock::graph {

/// Gives the open dimensions that nothing bounds a size (Dim::usual): that which weights tell (see
/// sizes_of_weights()), or one with which inference finds nothing wrong: no product, reshape or
/// join that does not fit, no window larger than what it slides over. All of them get one, but for
/// the first dimensions of inputs of several, which are taken for batches. A picture's is not 1,
/// which says nothing; others' is where that fits. Where a size makes one of what a constant has
/// more of, another that fits is preferred. None is given where weights tell none and no
/// size of a list fits, or 1 does. \pre  types are inferred, constants folded.
void find_sizes(Graph& graph);

}  // namespace penstock::graph
