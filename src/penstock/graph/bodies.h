// The graphs nested in nodes that stay: branches of an If, bodies of a Loop or Scan. Internal to
// graph.
#pragma once

#include "penstock/base/result.h"
#include "penstock/graph/draft.h"
#include "penstock/graph/import.h"

namespace penstock::graph {

/// Simplifies each nested graph where that takes an If out of it, at any depth; all others stay as
/// the file has them. Leaves the graph linked and compact. \returns whether there was one.
Result<bool> simplify_bodies(Draft& draft, const Engine& engine);

}  // namespace penstock::graph
