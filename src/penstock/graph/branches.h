// An If that always takes the same branch. Internal to graph.
#pragma once

#include "penstock/base/result.h"
#include "penstock/graph/draft.h"

namespace penstock::graph {

/// Puts the nodes of the branch taken in the place of each If whose condition is a constant. What
/// the branch makes for itself is named "<If>/<name>"; the If's outputs keep their names. Leaves
/// the graph linked and compact. \returns whether there was one. \error as
/// Inliner::copy_constants()
Result<bool> take_known_branches(Draft& draft);

}  // namespace penstock::graph
