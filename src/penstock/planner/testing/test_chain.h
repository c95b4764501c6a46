// Chain: the plainest problem there is, for tests.
#pragma once

#include <vector>

#include "penstock/planner/problem/problem.h"

namespace penstock::planner {

/// Groups in a row with these times, each value of cost 1, on two devices of 100 bytes.
inline Problem chain_of(const std::vector<double>& times) {
  Problem problem;
  problem.types.push_back({"a", {"a0", "a1"}, false, 100, Overlap::kSerial, true});
  problem.modes.push_back({"a", 0, 0});
  for (int g = 0; g < static_cast<int>(times.size()); ++g) {
    problem.groups.push_back({concat("g", g), {g}, {times[static_cast<std::size_t>(g)]}, 10});
    if (g == 0) continue;
    problem.values.push_back({concat("v", g), g - 1, {g}, 0, 1});
    problem.order.emplace_back(g - 1, g);
  }
  return problem;
}

}  // namespace penstock::planner
