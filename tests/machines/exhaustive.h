// The least period on a machine, by trying every choice of devices for every way of dividing.
#pragma once

#include "penstock/planner/problem/problem.h"
#include "tests/machines/machine.h"

namespace penstock::machines {

/// Of all sequences of stages, each in any mode on any number of devices, whose devices find room
/// on the CPUs of one use. Knows nothing of groupings: whether devices find room is asked of the
/// topology. Infinite: there is no plan. For about five groups.
double least_period(const Machine& machine, const planner::Problem& problem, bool replicas);

}  // namespace penstock::machines
