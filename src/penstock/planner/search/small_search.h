// SmallSearch: small problems searched to the end, stage by stage.
#pragma once

#include <cstdint>

#include "penstock/planner/search/search.h"

namespace penstock::planner {

struct SmallResult {
  std::optional<Split> split;  ///< The cheapest met; absent: none.
  double cost = kInfinite;     ///< Its period, or its latency where that is the goal.
  bool ended = false;          ///< Every split was tried or cannot be cheaper: this is the best.
};

/// Of all splits without replicas that cost less than `below` the cheapest; `options` say the goal,
/// the stages on each device and the latency cap. Exact in everything that evaluate() knows.
///
/// Depth first over sequences of stages; what has been placed bounds loads and latency. Alike
/// devices are one, and so are orders that evaluate() cannot tell apart. Meant for about ten
/// groups: gives up after `most_nodes` stages placed, at the end of `budget`, and at once where
/// there are more groups or devices than it can count.
SmallResult search_small(const Problem& problem, const Options& options, double below,
                         std::int64_t most_nodes, const Budget& budget);

}  // namespace penstock::planner
