// A network that rounds as another engine might: its numbers change in the last bit on the way.
#pragma once

#include <cstddef>
#include <cstdint>

#include "penstock/graph/graph.h"

namespace penstock::graph {

/// Multiplies what sums, products and normalisations read in `type`, and what nodes compute of
/// their results, by a seeded coin for each element of the last axis: f32 by 1 + 2^-23 or 1 -
/// 2^-23, f16 by 1 + 2^-10 or 1 - 2^-11; what has a bound of 1 gets no larger. Integers, what
/// counts them in floats, and what only moves or selects stay as they are: no engine rounds those.
/// Nested graphs stay too. \returns how many values; 0 as well where the network is of an operator
/// set below 7 or computes in steps, as rounding shows there in the steps.
std::size_t add_rounding_noise(Graph& graph, std::uint64_t seed, DType type = DType::kF32);

}  // namespace penstock::graph
