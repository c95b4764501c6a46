// All convex unions of touching sets: what the rule `combine` yields. Internal to collage.
#pragma once

#include <utility>
#include <vector>

#include "penstock/collage/wiring.h"

namespace penstock::collage {

struct ClosureLimits {
  std::size_t max_members = SIZE_MAX;
  std::size_t max_depth = SIZE_MAX;
  std::size_t beam = SIZE_MAX;      ///< Sets kept of one size with the same first member.
  std::size_t max_sets = SIZE_MAX;  ///< Small ones first; those given always stay.
};

/// Which sets may be joined: all members of the one read from, all of the one that reads.
struct JoinSets {
  NodeSet from, to;
};

/// The least family of sets that holds `base` and, with two disjoint sets of which one reads from
/// the other, their union where it is convex (and where some join, if there are any, allows it).
/// Without limits, all of it; limits on size and depth leave out just the sets beyond them.
/// Ordered by size, then by members. No set twice.
/// \pre the sets of `base` are convex and not empty
std::vector<NodeSet> closure(const Wiring& wiring, const std::vector<NodeSet>& base,
                             const std::vector<JoinSets>& joins, const ClosureLimits& limits);

}  // namespace penstock::collage
