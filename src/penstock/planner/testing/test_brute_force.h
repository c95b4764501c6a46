// Brute force: the true optimum of a small problem, by trying every split.
#pragma once

#include <functional>
#include <optional>

#include "penstock/planner/search/search.h"

namespace penstock::planner {

struct Optimum {
  Split split;
  double cost = kInfinite;  ///< The period, or the latency where that is the goal.
};

/// The cheapest of all splits that evaluate() accepts and `options` allow: its goal, replicas,
/// segments_per_device and latency_cap. Absent where there is none.
///
/// Tries every sequence of stages, each with every mode, device and number of replicas; devices of
/// a type are taken in order, for they are alike. Meant for at most 8 groups and 3 devices (12
/// groups where they are near a chain); each further group, device or segment multiplies the time.
std::optional<Optimum> brute_force(const Problem& problem, const Options& options);

/// Calls `visit` with each split that brute_force() compares.
void each_split(const Problem& problem, const Options& options,
                const std::function<void(const Split&, const Evaluation&)>& visit);

/// The stages of the device that has the most.
int most_on_a_device(const Split& split);

}  // namespace penstock::planner
