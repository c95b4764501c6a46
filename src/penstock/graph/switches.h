// Which inputs decide what a network computes, rather than what it is computed from.
#pragma once

#include <vector>

#include "penstock/graph/graph.h"

namespace penstock::graph {

/// The inputs of one integer or bool each, or one float that an Equal compares, on which, and on
/// constants alone, it hangs which branch of an If runs, or how often a Loop does: a sample rate, a
/// mode. Each once, in the order of the inputs. A condition that hangs on other inputs too is the
/// network's own business: then none of it is among them.
std::vector<ValueId> switches_of(const Graph& graph);

}  // namespace penstock::graph
