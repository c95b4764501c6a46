// Shares: plans whose devices are parts of one whole, which can be cut in many ways.
// Groups of a machine's CPUs are such devices.
#pragma once

#include <vector>

#include "penstock/planner/problem/problem.h"
#include "penstock/planner/problem/split.h"
#include "penstock/planner/search/search.h"

namespace penstock::planner {

/// How much of the whole each device takes. Other rules on which devices there are at once are left
/// out, so that what holds for shares holds for every such set of devices.
struct Shares {
  std::vector<double> part;  ///< [type] Of one device; 0 for those without limit.
  double whole = 0;
};

struct SharedPlan {
  double lower_bound = 0;  ///< No split has a shorter period; kInfinite: there is none.
  /// Good stages, each with as many device indices as it has replicas, all of them -1. Empty: none
  /// were found.
  Split split;
};

/// Cuts along one order of the groups, by the least part of the whole that the first groups take:
/// O(groups^2 * modes) for a period, whatever the numbers of devices. Where the order is the only
/// one, what needs more than the whole is refuted, and the bound is exact but for what Shares leave
/// out. Else all orders are searched (SharedIdeals), from the bound of time and memory up: to the
/// end where there are few ideals. For the goal of throughput and one stage a device.
SharedPlan plan_shares(const Problem& problem, const Options& options, const Shares& shares,
                       const Budget& budget);

}  // namespace penstock::planner
