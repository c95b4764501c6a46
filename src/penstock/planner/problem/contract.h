// Safe contraction: groups that some best split keeps together become one.
// It makes the search faster and never the answer worse.
#pragma once

#include <vector>

#include "penstock/planner/problem/instance.h"

namespace penstock::planner {

/// Merges, as long as it finds any, a group with its only direct successor (or predecessor) where
/// the values between the two cost at least what the group itself does; see the proof at the
/// definition. Not for latency caps, nor where transfers take memory. Memory that may bind stops
/// merges.
Instance contract(const Instance& instance);

/// The instance with all groups of one number, of 0, 1, ..., as one group. Its order is what
/// stands between those: cyclic and not ascending, where the numbers make it so.
Instance merge_groups(const Instance& instance, const std::vector<int>& number);

}  // namespace penstock::planner
