// Device sets made by hand, as a split.
#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "penstock/planner/components.h"
#include "penstock/planner/index.h"
#include "penstock/planner/workload.h"
#include "penstock/planner/workload_file.h"

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
  Status add(const std::vector<std::vector<int>>& sets, int mode, int first) {
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
    std::vector<int> groups;
    for (const int id : ids) {
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
  for (int m = 0; m < static_cast<int>(problem.modes.size()); ++m) {
    const auto& type = problem.types[at(m)];  // The workload's types have one mode each.
    PENSTOCK_CHECK_OK(builder.add(type.pays_transfers ? sets.accelerators : sets.cpus, m, device));
    device += static_cast<int>(type.devices.size());
  }
  return builder.finish();
}

}  // namespace penstock::planner
