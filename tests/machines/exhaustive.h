// The least period or latency on a machine, by trying every choice of devices for every way of
// dividing.
#pragma once

#include <vector>

#include "penstock/planner/problem/problem.h"
#include "tests/machines/machine.h"

namespace penstock::machines {

/// What plans may be, and which is the best.
struct Wanted {
  bool replicas = false;
  bool latency = false;         ///< The least time of one frame; else the least period.
  std::vector<int> alone = {};  ///< Groups whose stage has one instance.
};

/// Of all sequences of stages, each in any mode on any number of devices, whose devices find room
/// on the CPUs of one use. Knows nothing of groupings: whether devices find room is asked of the
/// topology. Infinite: there is no plan. For about five groups.
double least_cost(const Machine& machine, const planner::Problem& problem, const Wanted& wanted);

}  // namespace penstock::machines
