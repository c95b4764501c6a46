// Segments: the groups of each device cut into stages that can run one after the other.
#pragma once

#include <vector>

#include "penstock/planner/search/loads.h"

namespace penstock::planner {

/// Groups of one place that become one stage.
struct Segment {
  int place = 0;
  std::vector<int> groups;  ///< Ascending.
};

struct SegmentCut {
  std::vector<Segment>
      segments;            ///< In an order that respects the groups'; empty where none found.
  bool tried_all = false;  ///< None found: none exists.
};

/// Cuts an assignment into few segments, at most `most_per_device` on any device. `after`: [group]
/// direct order, without circles. Groups are taken in a topological order that stays at a place
/// as long as it can, which loses nothing; where to go next is searched by a beam.
SegmentCut cut_segments(const Lists& after, const Places& places, const std::vector<int>& place_of,
                        int most_per_device);

}  // namespace penstock::planner
