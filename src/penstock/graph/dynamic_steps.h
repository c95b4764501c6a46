// A network whose steps of DynamicQuantizeLinear differ, as another engine might compute them.
#pragma once

#include <cstddef>
#include <functional>

#include "penstock/graph/graph.h"

namespace penstock::graph {

/// How many times as large the size of a step is taken.
struct StepFactors {
  float of_zero = 1;   ///< Where the zero point is rounded,
  float of_steps = 1;  ///< and where the values are.
};

/// Writes each DynamicQuantizeLinear as the operators that it is made of, the size of its step
/// changed by `factors_of` the i-th: where saturated values lie between two steps, or their zero
/// point does, as that of -1 to 1, engines round it otherwise. Those in nested graphs stay.
/// \returns how many were written.
std::size_t write_dynamic_steps(Graph& graph,
                                const std::function<StepFactors(std::size_t i)>& factors_of);

}  // namespace penstock::graph
