// A made-up machine and a made-up network as the planner's problem.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/device/group_kinds.h"
#include "penstock/device/topology.h"
#include "penstock/planner/problem/problem.h"
#include "tests/synthetic_backend/settings.h"

namespace penstock::machines {

struct Machine {
  std::string name;
  device::Topology topology;
  device::Groupings groupings;
};

Machine two_nodes();      ///< 2 x 32 cores.
Machine fast_and_slow();  ///< 8 + 8 cores.
Machine siblings();       ///< 4 cores of 2 CPUs.
Machine quota();          ///< The same, 2.5 CPUs allowed.

struct Network {
  int groups = 4;
  bool chain = false;      ///< Else a group reads any of those before it.
  bool has_caps = false;   ///< A device holds about half of the weights.
  double transfers = 0.1;  ///< Of a group's time on one CPU.
};

/// Types are the machine's kinds of groups, modes two made-up engines on each of them. Times follow
/// the laws of a synthetic backend's settings, drawn by the seed.
planner::Problem problem_of(const Machine& machine, const Network& network, std::uint64_t seed);

}  // namespace penstock::machines
