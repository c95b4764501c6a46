// Constants that make a CPU slow.
#pragma once

#include "penstock/graph/subgraph.h"

namespace penstock::partition {

/// Whether a float constant that the subgraph reads holds a denormal: arithmetic with those is
/// tens of times slower, and flushing them to zero changes nothing that matters.
bool has_denormal_constants(const graph::Subgraph& subgraph);

}  // namespace penstock::partition
