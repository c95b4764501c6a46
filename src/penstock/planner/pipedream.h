// A split in the way of PipeDream: blocks in a line, cut by dynamic programming.
#pragma once

#include <optional>

#include "penstock/planner/instance.h"

namespace penstock::planner {

/// Merges what lies between articulation points of the graph, puts the blocks in a topological
/// order and cuts it into intervals for the devices of `usable` types; the least of the largest
/// loads over all cuts and all choices of types. Of the instance. Absent: no cut fits, or the work
/// is too much.
std::optional<Split> pipedream_split(const Instance& instance, const std::vector<bool>& usable);

}  // namespace penstock::planner
