// The period that no split can beat, whatever stages a device runs.
#pragma once

#include <optional>

#include "penstock/planner/problem/instance.h"

namespace penstock::planner {

/// The instance as splits without replicas and with a period below `period` see it: groups that
/// they keep together are one, modes that take too long are gone. Absent: there is no such split.
///
/// A device that has a group spends on each of its values the transfer, where some pin is
/// elsewhere, or the time of the pins, where it has them all; a pin of several of the values counts
/// in parts. Where that is too long with a value's transfer, the value is not cut there.
std::optional<Instance> fuse(Instance instance, double period);

/// A bound on the periods of splits without replicas, of which one with period `known` is (or
/// kInfinite); at most `known`. The largest period found for which fuse() leaves nothing, or
/// something that period_bound() or pigeonholes refute: of i groups that n devices can run, some
/// device runs i / n or more.
double virtual_bound(const Instance& instance, double known);

}  // namespace penstock::planner
