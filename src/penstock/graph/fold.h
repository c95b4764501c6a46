// Constant folding: one round. Internal to graph.
#pragma once

#include "penstock/graph/draft.h"
#include "penstock/graph/inference.h"

namespace penstock::graph {

/// Makes values constants that inference has already computed. True if there was one.
bool fold_known_integers(Draft& draft, const KnownIntegers& known);

/// Evaluates nodes whose inputs are constants. Stay: what is random, what is quantised for the
/// engine to fuse, what the engine refuses, and what would grow to more than twice the constants
/// it replaces and 64 KiB. True if something was folded: then types may be inferred further.
bool fold_constants(Draft& draft, const Engine& engine);

}  // namespace penstock::graph
