// Device sets made by hand, as a split.
#include <algorithm>
#include <numeric>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "penstock/planner/problem/components.h"
#include "penstock/planner/problem/index.h"
#include "penstock/planner/workload/workload.h"
#include "penstock/planner/workload/workload_file.h"

namespace penstock::planner {
namespace {

/// The split while it is read.
class Builder {
 public:
  explicit Builder(const Problem& problem)
      : problem_(problem), stage_of_(problem.groups.size(), -1) {
    for (int g = 0; g < static_cast<int>(problem.groups.size()); ++g) {
      for (const int id : problem.groups[at(g)].nodes) group_of_.emplace(id, g);
    }
  }

  /// One stage for each set, on devices `first`, `first` + 1, ... of `mode`'s type.
  Status add(std::span<const std::vector<int>> sets, int mode, int first) {
    const auto& type = problem_.types[at(problem_.modes[at(mode)].type)];
    int device = first;
    for (const auto& ids : sets) {
      if (ids.empty()) continue;
      if (!type.unlimited && device == first + static_cast<int>(type.devices.size())) {
        return invalid_argument("the split: uses more than the ", type.devices.size(),
                                " devices of type '", type.name, "'");
      }
      PENSTOCK_TRY(const auto groups, take(ids));
      if (type.unlimited) {
        for (const int group : groups) put({group}, {mode, {}});
      } else {
        put(groups, {mode, {device++}});
      }
    }
    return {};
  }

  Result<Split> finish() {
    const auto alone = std::ranges::find(stage_of_, -1);
    if (alone != stage_of_.end()) {
      const auto group = static_cast<std::size_t>(alone - stage_of_.begin());
      return invalid_argument("the split: ", problem_.groups[group].name, " is in no set");
    }
    Arcs arcs;
    for (const auto& [before, after] : problem_.order) {
      arcs.emplace_back(stage_of_[at(before)], stage_of_[at(after)]);
    }
    const auto place = strong_components(static_cast<int>(split_.stages.size()), arcs);
    std::vector<int> order(split_.stages.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](int stage) { return place[at(stage)]; });
    Split ordered;
    for (const int stage : order) ordered.stages.push_back(std::move(split_.stages[at(stage)]));
    return ordered;
  }

 private:
  struct Where {
    int mode;
    std::vector<int> devices;
  };

  void put(std::vector<int> groups, Where where) {
    for (const int group : groups) stage_of_[at(group)] = static_cast<int>(split_.stages.size());
    split_.stages.push_back({std::move(groups), where.mode, std::move(where.devices)});
  }

  /// The groups of the nodes `ids`, ascending.
  Result<std::vector<int>> take(const std::vector<int>& ids) {
    std::unordered_set<int> seen;
    std::vector<int> groups;
    for (const int id : ids) {
      if (!seen.insert(id).second) {
        return invalid_argument("the split: node ", id, " is in one set twice");
      }
      const auto group = group_of_.find(id);
      if (group == group_of_.end()) return invalid_argument("the split: there is no node ", id);
      if (stage_of_[at(group->second)] >= 0) {
        return invalid_argument("the split: node ", id,
                                ", or one that must stay with it, is in two sets");
      }
      groups.push_back(group->second);
    }
    std::ranges::sort(groups);
    const auto twice = std::ranges::unique(groups);
    groups.erase(twice.begin(), twice.end());
    return groups;
  }

  const Problem& problem_;
  std::unordered_map<int, int> group_of_;  // Of each node id.
  std::vector<int> stage_of_;              // Of each group; -1: none yet.
  Split split_;
};

}  // namespace

Result<Split> parse_workload_split(std::string_view text, const Problem& problem) {
  PENSTOCK_TRY(const auto sets, parse_workload_sets(text));
  Builder builder(problem);
  int device = 0;
  std::span<const std::vector<int>> accelerators(sets.accelerators), cpus(sets.cpus);
  for (std::size_t m = 0; m < problem.modes.size(); ++m) {
    const auto& type = problem.types[m];  // The workload's types have one mode each.
    auto& rest = type.pays_transfers ? accelerators : cpus;
    const bool last = std::ranges::none_of(
        problem.types.begin() + static_cast<std::ptrdiff_t>(m) + 1, problem.types.end(),
        [&](const DeviceType& other) { return other.pays_transfers == type.pays_transfers; });
    const auto count = last ? rest.size() : std::min(rest.size(), type.devices.size());
    PENSTOCK_CHECK_OK(builder.add(rest.first(count), static_cast<int>(m), device));
    rest = rest.subspan(count);
    device += static_cast<int>(type.devices.size());
  }
  const auto any = [](const std::vector<int>& ids) { return !ids.empty(); };
  for (const auto& [name, left] : {std::pair("fpgas", accelerators), std::pair("cpus", cpus)}) {
    if (std::ranges::none_of(left, any)) continue;
    return invalid_argument("the split: there is no device for the sets of '", name, "'");
  }
  return builder.finish();
}

}  // namespace penstock::planner
