// The cleaning passes of the import. Each leaves the graph linked and compact.
#pragma once

#include "penstock/base/result.h"
#include "penstock/graph/draft.h"

namespace penstock::graph {

/// The value that a Constant node's one attribute holds.
Result<Tensor> constant_of(const Attribute& attribute);

/// Constant nodes become constants.
Status make_constants(Draft& draft);

/// Identity nodes go, unless that would change the name of a model output or of a value that a
/// nested graph reads.
void remove_identities(Draft& draft);

/// Nodes on which no output depends, and constants that nothing reads.
void remove_dead(Draft& draft);

}  // namespace penstock::graph
