// A Loop or Scan whose number of iterations is known. Internal to graph.
#pragma once

#include <cstddef>

#include "penstock/base/result.h"
#include "penstock/graph/draft.h"

namespace penstock::graph {

/// Nodes that all loops of an import may become together: more cost an engine, and the search for a
/// split, more than the Loop does.
inline constexpr std::size_t kMostUnrolledNodes = 1024;

/// Puts the iterations of each Loop and Scan one after the other in its place, where their number
/// is a constant, the condition stays true, and the nodes are few enough. What iteration 3 makes is
/// named "<Loop>/3/<name>"; the Loop's outputs keep their names. Leaves the graph linked and
/// compact. \returns whether there was one. \error as Inliner::copy_constants()
Result<bool> unroll_known_loops(Draft& draft);

}  // namespace penstock::graph
