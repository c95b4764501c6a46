// Makes the changed problems, solves each from the answer, and offers their plans to the real one.
#include "penstock/planner/report/what_if.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "penstock/planner/solve.h"

namespace penstock::planner {
namespace {

constexpr double kMoreBandwidth = 1.1;

struct Change {
  std::string name;
  Problem problem;
  int first = -1, added = -1;  ///< Devices of its type, and the one that was not there.
  bool worse = false;          ///< What is a split of the problem as it is may be none.
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

/// The first index behind the type's devices.
int end_of(const Problem& problem, std::size_t type) {
  int end = 0;
  for (std::size_t t = 0; t <= type; ++t) {
    end += static_cast<int>(problem.types[t].devices.size());
  }
  return end;
}

std::vector<Change> changes_of(const Problem& problem) {
  std::vector<Change> changes;
  for (std::size_t t = 0; t < problem.types.size(); ++t) {
    if (problem.types[t].devices.empty()) continue;
    const int end = end_of(problem, t);
    const int first = end - static_cast<int>(problem.types[t].devices.size());
    changes.push_back({"one more " + problem.types[t].name, with_one_more(problem, t), first, end});
  }
  if (!problem.values.empty()) {
    changes.push_back({"10 % more bandwidth", with_more_bandwidth(problem)});
  }
  auto half = problem;
  for (auto& type : half.types) type.memory /= 2;
  const auto capped = [](const DeviceType& type) { return type.memory < kInfinite; };
  if (std::ranges::any_of(problem.types, capped)) {
    changes.push_back({"half the memory", std::move(half), -1, -1, true});
  }
  return changes;
}

/// The split with `step` added to each device from index `from` on.
Split shifted(Split split, int from, int step) {
  for (auto& stage : split.stages) {
    for (int& device : stage.devices) device += device >= from ? step : 0;
  }
  return split;
}

/// A split of the problem as it is in the changed one.
Split with_change(const Change& change, const Split& split) {
  return change.added < 0 ? split : shifted(split, change.added, 1);
}

/// A split of the changed problem in the problem as it is; absent where it takes one device more
/// than there are.
std::optional<Split> without_change(const Change& change, Split split) {
  if (change.added < 0) return split;
  std::set<int> used;
  for (const auto& stage : split.stages) used.insert(stage.devices.begin(), stage.devices.end());
  for (int free = change.first; free <= change.added; ++free) {
    if (!used.contains(free)) return shifted(std::move(split), free, -1);
  }
  return std::nullopt;
}

class Asker {
 public:
  Asker(const Problem& problem, Options options, double seconds, Answer& answer)
      : problem_(problem),
        options_(std::move(options)),
        answer_(answer),
        changes_(changes_of(problem)) {
    options_.report = {};
    const auto solves = std::max<std::size_t>(1, changes_.size() + (answer.proved ? 0 : 1));
    options_.seconds = seconds / static_cast<double>(solves);
  }

  std::vector<WhatIf> run() {
    if (!answer_.proved && !interrupted()) search_longer();
    std::vector<WhatIf> items;
    for (const auto& change : changes_) {
      if (interrupted()) break;
      items.push_back(ask(change));
    }
    for (std::size_t i = 0; i < items.size(); ++i) finish(changes_[i], items[i]);
    return items;
  }

 private:
  [[nodiscard]] bool interrupted() const { return options_.interrupted && options_.interrupted(); }

  void search_longer() {
    options_.user_split = answer_.split;
    auto found = solve_unexplained(problem_, options_);
    if (!found) return;
    answer_.lower_bound = std::max(answer_.lower_bound, found->lower_bound);
    offer(std::move(found->split));
    settle(answer_);
  }

  WhatIf ask(const Change& change) {
    WhatIf item;
    item.change = change.name;
    options_.user_split.reset();
    if (!change.worse) options_.user_split = with_change(change, answer_.split);
    auto found = solve_unexplained(change.problem, options_);
    if (!found) {
      item.why_not = found.error().message();
      return item;
    }
    item.cost = found->cost;
    item.lower_bound = found->lower_bound;
    if (auto split = without_change(change, std::move(found->split))) {
      offer(*std::move(split));
    }
    return item;
  }

  /// Takes a split of the problem as it is where that is better than the answer.
  void offer(Split split) {
    constexpr double kLess = 1 - 1e-9;
    auto found = evaluate(problem_, split);
    if (!found.violations.empty() || !allows(options_, split) || !keeps_cap(options_, found)) {
      return;
    }
    if (!(cost_of(found, options_.goal) < answer_.cost * kLess)) return;
    replace_split(problem_, options_, std::move(split), answer_);
  }

  /// The answer may have become better after the change was asked about.
  void finish(const Change& change, WhatIf& item) const {
    if (!change.worse) {
      const auto found = evaluate(change.problem, with_change(change, answer_.split));
      item.cost = std::min(item.cost, cost_of(found, options_.goal));
    }
    item.gap = gap_of(item.cost, item.lower_bound);
    item.proved = item.gap <= kProofGap;
    item.certain_gain = item.cost < answer_.lower_bound * (1 - kProofGap);
  }

  const Problem& problem_;
  Options options_;
  Answer& answer_;
  std::vector<Change> changes_;
};

}  // namespace

std::vector<WhatIf> what_if(const Problem& problem, const Options& options, double seconds,
                            Answer& answer) {
  return Asker(problem, options, seconds, answer).run();
}

}  // namespace penstock::planner
