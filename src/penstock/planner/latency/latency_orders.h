// Linear plans: the best way to cut one topological order into calls and single groups.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/planner/latency/latency_exact.h"
#include "penstock/planner/search/search.h"

namespace penstock::planner {

/// A topological order of the blocks. The same number gives the same order; those next to each
/// other are of different kinds: depth first or at random, from the front or from the back.
std::vector<int> latency_order(const LatencyModel& model, std::uint64_t number);

/// Calls as intervals of `order`, by dynamic programming over (place, devices used); each state
/// keeps the plan with the least end of all that it has begun, if the rest ran at its fastest.
/// Exact on chains. Where branches run side by side it is a good guess. Empty where none was found
/// in time.
std::vector<LatencyStep> plan_along(const LatencyModel& model, const std::vector<int>& order,
                                    const Budget& budget);

}  // namespace penstock::planner
