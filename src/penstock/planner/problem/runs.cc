// Fills runs by time and by number of groups, then renumbers values, order and colocated sets.
#include "penstock/planner/problem/runs.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

/// In the mode that is the fastest on it.
double least_time(const Group& group) {
  const auto least = std::ranges::min_element(group.time);
  return least == group.time.end() || !std::isfinite(*least) ? 0 : *least;
}

bool same_modes(const Group& one, const Group& other) {
  return std::ranges::equal(one.time, other.time, [](double a, double b) {
    return std::isfinite(a) == std::isfinite(b);
  });
}

/// Of each group, the number of its run. Half of what fills a run is time and half is groups, so
/// that what takes no time is divided too.
std::vector<int> number_runs(const std::vector<Group>& groups, std::size_t most) {
  double total = 0;
  for (const auto& group : groups) total += least_time(group);
  std::vector<int> runs;
  double filled = 0;
  int run = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const double share = total > 0 ? least_time(groups[i]) / total : 0;
    const double own =
        (share + 1 / static_cast<double>(groups.size())) / 2 * static_cast<double>(most);
    const bool full = filled > 0 && filled + own / 2 > 1;
    if (i > 0 && (full || !same_modes(groups[i - 1], groups[i]))) {
      ++run;
      filled = 0;
    }
    filled += own;
    runs.push_back(run);
  }
  return runs;
}

void sort_unique(std::vector<int>& numbers) {
  std::ranges::sort(numbers);
  numbers.erase(std::ranges::unique(numbers).begin(), numbers.end());
}

std::vector<Group> join_groups(std::vector<Group> groups, const std::vector<int>& run) {
  std::vector<Group> joined;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    auto& group = groups[i];
    if (at(run[i]) == joined.size()) {
      joined.push_back(std::move(group));
      continue;
    }
    auto& whole = joined.back();
    whole.nodes.insert(whole.nodes.end(), group.nodes.begin(), group.nodes.end());
    for (std::size_t mode = 0; mode < group.time.size(); ++mode) {
      whole.time[mode] += group.time[mode];
    }
    whole.memory += group.memory;
  }
  return joined;
}

/// Those that leave their run.
std::vector<Value> join_values(std::vector<Value> values, const std::vector<int>& run) {
  std::vector<Value> joined;
  for (auto& value : values) {
    value.producer = run[at(value.producer)];
    for (int& consumer : value.consumers) consumer = run[at(consumer)];
    std::erase(value.consumers, value.producer);
    if (value.consumers.empty()) continue;
    sort_unique(value.consumers);
    joined.push_back(std::move(value));
  }
  return joined;
}

}  // namespace

Problem merge_runs(Problem problem, std::size_t most) {
  if (problem.groups.size() <= most) return problem;
  const auto count = problem.groups.size();
  const auto run = number_runs(problem.groups, most);
  problem.groups = join_groups(std::move(problem.groups), run);
  problem.values = join_values(std::move(problem.values), run);
  for (auto& [before, after] : problem.order) {
    before = run[at(before)];
    after = run[at(after)];
  }
  std::erase_if(problem.order, [](const auto& pair) { return pair.first == pair.second; });
  std::ranges::sort(problem.order);
  problem.order.erase(std::ranges::unique(problem.order).begin(), problem.order.end());
  for (auto& together : problem.colocated) {
    for (int& group : together) group = run[at(group)];
    sort_unique(together);
  }
  std::erase_if(problem.colocated, [](const auto& together) { return together.size() < 2; });
  problem.notes.push_back(
      concat(count, " groups are planned as ", problem.groups.size(), " runs of consecutive ones"));
  if (problem.scope.empty()) problem.scope = "that keeps runs of consecutive groups together";
  return problem;
}

}  // namespace penstock::planner
