#include "penstock/planner/what_if.h"

#include <algorithm>
#include <utility>

#include "penstock/planner/solve.h"

namespace penstock::planner {
namespace {

constexpr double kMoreBandwidth = 1.1;

using Change = std::pair<std::string, Problem>;

Problem with_one_more(Problem problem, std::size_t type) {
  auto& devices = problem.types[type].devices;
  std::string name = devices.back() + "+1";
  const auto taken = [&](const DeviceType& other) {
    return std::ranges::count(other.devices, name) > 0;
  };
  while (std::ranges::any_of(problem.types, taken)) name += "+1";
  devices.push_back(std::move(name));
  return problem;
}

/// Fixed times of moving a value count as those of its bytes: the public workloads give no others.
Problem with_more_bandwidth(Problem problem) {
  for (auto& value : problem.values) value.transfer_time /= kMoreBandwidth;
  for (auto& row : problem.links) {
    for (auto& link : row) link.bandwidth *= kMoreBandwidth;
  }
  return problem;
}

std::vector<Change> changes_of(const Problem& problem) {
  std::vector<Change> changes;
  for (std::size_t t = 0; t < problem.types.size(); ++t) {
    if (problem.types[t].devices.empty()) continue;
    changes.emplace_back("one more " + problem.types[t].name, with_one_more(problem, t));
  }
  if (!problem.values.empty()) {
    changes.emplace_back("10 % more bandwidth", with_more_bandwidth(problem));
  }
  auto half = problem;
  for (auto& type : half.types) type.memory /= 2;
  const auto capped = [](const DeviceType& type) { return type.memory < kInfinite; };
  if (std::ranges::any_of(problem.types, capped)) changes.emplace_back("half the memory", half);
  return changes;
}

}  // namespace

std::vector<WhatIf> what_if(const Problem& problem, const Options& options, double seconds) {
  const auto changes = changes_of(problem);
  auto shared = options;
  shared.seconds = seconds / static_cast<double>(std::max<std::size_t>(1, changes.size()));
  shared.user_split.reset();
  std::vector<WhatIf> found;
  for (const auto& [change, changed] : changes) {
    if (options.interrupted && options.interrupted()) break;
    WhatIf item{change, kInfinite, 0, ""};
    const auto answer = solve(changed, shared);
    if (answer) {
      item.cost = answer->cost;
      item.lower_bound = answer->lower_bound;
    } else {
      item.why_not = answer.error().message;
    }
    found.push_back(std::move(item));
  }
  return found;
}

}  // namespace penstock::planner
