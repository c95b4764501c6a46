// Runs: problems of very many groups made small enough to be searched.
#pragma once

#include <cstddef>

#include "penstock/planner/problem/problem.h"

namespace penstock::planner {

/// The problem with runs of consecutive groups made one each, about `most` of them of even time; as
/// it is where it has no more than `most` groups. A run ends where the next group may run in other
/// modes, so that there may be more of them. Bounds are then those of plans that keep runs whole,
/// which `scope` says. `nodes` of a run are those of its groups, in order.
/// \pre  each pair of `order` ascends: groups are numbered such that producers come first
Problem merge_runs(Problem problem, std::size_t most);

}  // namespace penstock::planner
