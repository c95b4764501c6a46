// Random problems for tests, each reproducible by its seed.
#pragma once

#include <cstdint>
#include <random>

#include "penstock/planner/problem/problem.h"
#include "tests/support/sample.h"

namespace penstock::planner {

/// What a random problem has in it.
struct RandomOptions {
  int groups = 7;
  std::vector<int> devices{3};  ///< Of each type.
  int modes_per_type = 1;
  double communication = 1;     ///< Times the values' costs, which are about a group's time at 1.
  bool whole_numbers = false;   ///< Times and costs of few different values: many ties.
  bool memory = false;          ///< Caps that bind, sometimes unsatisfiable together.
  bool overlap = false;         ///< Each type overlaps in a way of its own.
  bool free_transfers = false;  ///< The last type pays no transfers.
  bool links = false;           ///< Latency and bandwidth for each pair of types.
  bool launch = false;          ///< Stages cost something beside their groups.
  bool unsupported = false;     ///< Some groups do not run in some modes.
  bool colocated = false;       ///< One pair of groups that must share a device.
  bool pinned = false;          ///< One group has a device.
  bool backward = false;        ///< Values that go against the order, as in a training graph.
  bool frames = false;          ///< Frames in flight count in memory.
  bool unlimited = false;       ///< One more type: unlimited, slow, pays no transfers.
};

/// A problem that validate() accepts. The groups' numbers are not a topological order.
Problem random_problem(std::uint64_t seed, const RandomOptions& options);

}  // namespace penstock::planner
