// Run walk: stages as runs of neighbours, annealed also through plans that hold too much.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "penstock/planner/problem/split.h"
#include "penstock/planner/search/loads.h"
#include "penstock/planner/search/random.h"
#include "penstock/planner/search/search.h"

namespace penstock::planner {

/// For problems whose frames in flight take memory: a group that leaves its stage alone has tensors
/// on both sides, so a walk of single groups leads nowhere, and where devices are nearly full one
/// run has to leave a device before another one may come. Here a move takes a run to a place, or
/// two; what devices hold beyond their caps costs, and is forbidden at the end only.
///
/// `from`: [group] places to begin with; empty, or of too many runs: drawn ones. `offer` is told
/// each split of the instance's groups that is shorter than `period` and all before it.
/// \pre the instance's numbering is an order of its groups
void walk_runs(const Instance& instance, const Places& places, int most_per_device,
               const std::vector<int>& from, double period, std::int64_t steps, Random& random,
               const Budget& budget, const std::function<void(const Split&)>& offer);

}  // namespace penstock::planner
