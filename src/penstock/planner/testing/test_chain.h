// Chain: the plainest problem there is, for tests.
#pragma once

#include <utility>
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

/// Groups in a row that take so long on one of four narrow devices and on one of two wide ones.
inline Problem narrow_and_wide(const std::vector<std::pair<double, double>>& times) {
  Problem problem;
  problem.types = {{.name = "narrow", .devices = {"n0", "n1", "n2", "n3"}},
                   {.name = "wide", .devices = {"w0", "w1"}}};
  problem.modes = {{"narrow", 0, 0}, {"wide", 1, 0}};
  for (const auto& [narrow, wide] : times) {
    const int number = static_cast<int>(problem.groups.size());
    problem.groups.push_back({concat("g", number), {number}, {narrow, wide}, 1});
    if (number > 0) problem.order.emplace_back(number - 1, number);
  }
  return problem;
}

}  // namespace penstock::planner
