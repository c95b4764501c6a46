// Sizes of open dimensions that the shapes of weights tell. Internal to graph.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "penstock/graph/graph.h"

namespace penstock::graph {

using SizesOfSymbols = std::map<std::string, std::int64_t, std::less<>>;

/// Of the symbols of inputs that reach an operator at an axis whose size another of its inputs, a
/// weight or whatever is of a known size, tells: products, convolutions, recurrences and
/// normalisations of the main graph. \pre  types are inferred.
SizesOfSymbols sizes_of_weights(const Graph& graph);

}  // namespace penstock::graph
