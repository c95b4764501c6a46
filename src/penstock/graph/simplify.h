// What the clean import does to a graph. Internal to graph.
#pragma once

#include "penstock/base/result.h"
#include "penstock/graph/draft.h"
#include "penstock/graph/import.h"

namespace penstock::graph {

/// Constants fold, an If of known condition gives way to its branch, at every depth, a short Loop
/// or Scan of known count to its iterations; identities and what is dead go. Leaves the graph
/// linked and compact. \error as make_constants()
Status simplify(Draft& draft, const Engine& engine);

}  // namespace penstock::graph
