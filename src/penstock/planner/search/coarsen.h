// Coarsening: groups glued by dear values become one, so that a search moves them together.
#pragma once

#include <vector>

#include "penstock/planner/problem/instance.h"
#include "penstock/planner/search/random.h"

namespace penstock::planner {

struct Coarse {
  Instance instance;          ///< As merge_groups() gives it.
  std::vector<int> block_of;  ///< [finer group]
};

/// The instance with about `target` groups: ends of values merged, the dearest for their work
/// first, with some chance. Groups with different `keep_apart` stay apart; no merged group runs
/// longer than `longest` in its fastest mode, and none loses its last mode. Source: heavy-edge
/// matching of multi-level graph partitioning, Karypis and Kumar, SIAM J. Sci. Comput. 20(1), 1998.
Coarse coarsen(const Instance& instance, const std::vector<int>& keep_apart, int target,
               double longest, Random& random);

}  // namespace penstock::planner
