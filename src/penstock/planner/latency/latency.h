// Latency: the pipeline that takes one frame through in the least time.
#pragma once

#include "penstock/planner/search/search.h"

namespace penstock::planner {

/// Minimises evaluate().latency. Dynamic programs along topological orders find good splits,
/// annealing improves them, label setting over ideals proves or finds the best where the graph has
/// few ideals; a bound along paths holds in any case. Replicas do not make a frame faster and are
/// not tried.
///
/// Proves the optimum, given time, where what a value costs does not depend on the type at its
/// other end, values follow the order and frames in flight take no memory. Else the bound still
/// holds, and the best split may be missed. With several segments per device small problems are
/// searched to the end; else the bound is the longest path's. `problem` is valid; `options`:
/// segments_per_device, latency_cap and user_split count; with the goal of throughput the first
/// plan below the cap will do.
Outcome search_latency(const Problem& problem, const Options& options, const Budget& budget,
                       const BoundsReport& report = {});

}  // namespace penstock::planner
