// A split in the way of PipeDream: blocks in a line, cut as well as can be.
#pragma once

#include <optional>
#include <vector>

#include "penstock/planner/problem/instance.h"
#include "penstock/planner/search/search.h"

namespace penstock::planner {

/// Merges biconnected components of the graph (see find_blocks()), puts the blocks in a topological
/// order and cuts it into intervals for `devices` of each type; the least of the largest loads over
/// all cuts and all choices of types. Of the instance. Absent: no cut fits, the types are too
/// many, or the budget ended.
std::optional<Split> pipedream_split(const Instance& instance, const std::vector<int>& devices,
                                     const Budget& budget);

}  // namespace penstock::planner
