#include "penstock/planner/what_if.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "penstock/planner/solve.h"

namespace penstock::planner {
namespace {

constexpr double kMoreBandwidth = 1.1;

struct Change {
  std::string name;
  Problem problem;
  std::optional<Split> start;  ///< Options::user_split as a split of the changed problem.
};

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

/// The same stages where a device is put behind those of `type`.
std::optional<Split> with_one_more(const Problem& problem, std::optional<Split> split,
                                   std::size_t type) {
  int behind = 0;
  for (std::size_t t = 0; t <= type; ++t) {
    behind += static_cast<int>(problem.types[t].devices.size());
  }
  if (!split) return split;
  for (auto& stage : split->stages) {
    for (int& device : stage.devices) device += device >= behind ? 1 : 0;
  }
  return split;
}

std::vector<Change> changes_of(const Problem& problem, const std::optional<Split>& start) {
  std::vector<Change> changes;
  for (std::size_t t = 0; t < problem.types.size(); ++t) {
    if (problem.types[t].devices.empty()) continue;
    changes.push_back({"one more " + problem.types[t].name, with_one_more(problem, t),
                       with_one_more(problem, start, t)});
  }
  if (!problem.values.empty()) {
    changes.push_back({"10 % more bandwidth", with_more_bandwidth(problem), start});
  }
  auto half = problem;
  for (auto& type : half.types) type.memory /= 2;
  const auto capped = [](const DeviceType& type) { return type.memory < kInfinite; };
  if (std::ranges::any_of(problem.types, capped)) changes.push_back({"half the memory", half, {}});
  return changes;
}

}  // namespace

std::vector<WhatIf> what_if(const Problem& problem, const Options& options, double seconds) {
  const auto changes = changes_of(problem, options.user_split);
  auto shared = options;
  shared.report = {};
  shared.seconds = seconds / static_cast<double>(std::max<std::size_t>(1, changes.size()));
  std::vector<WhatIf> found;
  for (const auto& [change, changed, start] : changes) {
    if (options.interrupted && options.interrupted()) break;
    WhatIf item{change, kInfinite, 0, ""};
    shared.user_split = start;
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
