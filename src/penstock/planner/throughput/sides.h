// Sides: a problem as the searches for one stage a device see it, from below or from above.
#pragma once

#include <optional>

#include "penstock/planner/bounds/model.h"
#include "penstock/planner/search/search.h"

namespace penstock::planner {

/// The instance with the costs that `partner` says; types without limit have no device, and where
/// frames in flight count, a value's bytes stand for as many frames as it holds at least or at
/// most. Absent: groups that must stay together fit nowhere.
std::optional<Instance> make_side(const Problem& problem, Partner partner);

/// Whether both sides say the same.
bool is_exact(const Problem& problem, const Instance& low, const Instance& high);

Model make_model(const Problem& problem, const Options& options, Instance instance);

/// Whether there is only one linear order.
bool is_chain(const Instance& instance);

}  // namespace penstock::planner
