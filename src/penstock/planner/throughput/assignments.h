// Assignments: all of them, for small problems; what cannot beat the best is left out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "penstock/planner/bounds/prices.h"
#include "penstock/planner/search/loads.h"
#include "penstock/planner/search/search.h"

namespace penstock::planner {

/// What the search asks of its caller.
struct AssignmentJudge {
  std::function<double()> best;  ///< Period to beat; assignments that do not are left out.
  /// Looks at a complete assignment with this period; says what its splits cost at least.
  std::function<double(const std::vector<int>& place_of, double period)> settle;
  std::int64_t most_nodes = 0;  ///< Of the search tree; then it gives up.
};

/// What splits cost at least that are not left out; nothing if `most_nodes` or the budget ended the
/// search. `places` has no order. Depth first: groups in their order, loads only grow, and the rest
/// must fit what `prices` says is left of the devices.
std::optional<double> search_assignments(const Instance& instance, const Places& places,
                                         const Prices& prices, const AssignmentJudge& judge,
                                         const Budget& budget);

}  // namespace penstock::planner
