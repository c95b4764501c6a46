// Virtual stages: pipelines whose devices run several stages each, in turns.
#pragma once

#include "penstock/planner/search/search.h"

namespace penstock::planner {

/// The best split found with at most `options.segments_per_device` stages on each device and a
/// latency of at most `options.latency_cap`; never worse than `start`, which has stages on one
/// device each or is empty. Its cost is the period, as evaluate() says, whatever the goal.
///
/// Small problems are searched to the end: then cost and bound meet. Else multi-level annealing,
/// from the start and from drawn assignments, until `budget` ends, the bound is met, or nothing was
/// gained for long. The same arguments give the same answer, up to where the budget cuts it off.
/// With replicas, or devices without limit, the bound allows them and the search does not use them.
///
/// Where a cap on stages, launch costs, a latency cap or frames in flight matter, groups move
/// between slots: stages in a fixed order, drawn anew each round. Else between devices, and the
/// stages are cut afterwards, as few as can be found.
Outcome search_virtual(const Problem& problem, const Options& options, const Split& start,
                       const Budget& budget, const BoundsReport& report = {});

}  // namespace penstock::planner
