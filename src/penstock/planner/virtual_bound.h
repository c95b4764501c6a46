// The period that no split can beat, whatever stages a device runs.
#pragma once

#include "penstock/planner/instance.h"

namespace penstock::planner {

/// A bound on the periods of splits without replicas, of which one with period `known` is (or
/// kInfinite); at most `known`. Of `instance` only what a group alone costs counts.
///
/// A split better than `known` runs no group where it takes as long alone. Then: period_bound(),
/// and pigeonholes: of i groups that n devices can run, some device runs i / n or more.
double virtual_bound(Instance instance, double known);

}  // namespace penstock::planner
