// Tries by recursion every subset of groups as the next stage, on used and on fresh devices.
#include "penstock/planner/testing/test_brute_force.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

using Set = std::uint32_t;  // Of groups.

class BruteForce {
 public:
  using Visit = std::function<void(const Split&, const Evaluation&)>;

  BruteForce(const Problem& problem, const Options& options, const Visit& visit)
      : problem_(problem),
        options_(options),
        visit_(visit),
        groups_(static_cast<int>(problem.groups.size())),
        before_(problem.groups.size(), 0) {
    for (const auto& [before, after] : problem.order) before_[at(after)] |= Set{1} << before;
    for (const auto& type : problem.types) {
      first_device_.push_back(static_cast<int>(uses_.size()));
      uses_.resize(uses_.size() + type.devices.size(), 0);
    }
    first_device_.push_back(static_cast<int>(uses_.size()));
  }

  void run() { extend(0); }

 private:
  [[nodiscard]] Set all() const { return (Set{1} << groups_) - 1; }

  /// Whether what each group of `set` needs is in it.
  [[nodiscard]] bool closed(Set set) const {
    for (int g = 0; g < groups_; ++g) {
      if ((set >> g & 1U) != 0 && (before_[at(g)] & ~set) != 0) return false;
    }
    return true;
  }

  void extend(Set done) {
    if (done == all()) return judge();
    const Set rest = all() & ~done;
    for (Set chosen = rest; chosen != 0; chosen = (chosen - 1) & rest) {  // Every subset.
      if (closed(done | chosen)) try_stage(done, chosen);
    }
  }

  void try_stage(Set done, Set chosen) {
    Stage stage;
    for (int g = 0; g < groups_; ++g) {
      if ((chosen >> g & 1U) != 0) stage.groups.push_back(g);
    }
    for (stage.mode = 0; at(stage.mode) < problem_.modes.size(); ++stage.mode) {
      if (!supported(stage)) continue;
      const int type = problem_.modes[at(stage.mode)].type;
      if (problem_.types[at(type)].unlimited) {
        if (stage.groups.size() == 1 && !stands_in_for_another_order(stage))
          push(done, chosen, stage);
        continue;
      }
      try_used_devices(done, chosen, stage, type);
      try_fresh_devices(done, chosen, stage, type);
    }
  }

  [[nodiscard]] bool supported(const Stage& stage) const {
    return std::ranges::all_of(stage.groups, [&](int group) {
      return problem_.groups[at(group)].time[at(stage.mode)] < kInfinite;
    });
  }

  /// Two neighbours on unlimited types that do not need each other are tried in one order only: the
  /// other makes no difference, but where frames wait.
  [[nodiscard]] bool stands_in_for_another_order(const Stage& stage) const {
    if (problem_.frames_in_flight || split_.stages.empty()) return false;
    const auto& last = split_.stages.back();
    if (!last.devices.empty()) return false;
    const int before = last.groups.front(), after = stage.groups.front();
    for (const auto& value : problem_.values) {
      if (value.producer == before && std::ranges::count(value.consumers, after) > 0) return false;
      if (value.producer == after && std::ranges::count(value.consumers, before) > 0) return false;
    }
    return after < before && (before_[at(after)] >> before & 1U) == 0;
  }

  /// Another segment on a device that has some.
  void try_used_devices(Set done, Set chosen, Stage stage, int type) {
    for (int d = first_device_[at(type)]; d < first_device_[at(type) + 1]; ++d) {
      if (uses_[at(d)] == 0 || uses_[at(d)] >= options_.segments_per_device) continue;
      stage.devices = {d};
      ++uses_[at(d)];
      push(done, chosen, stage);
      --uses_[at(d)];
    }
  }

  /// The first devices of the type that have nothing: one, or more with replicas.
  void try_fresh_devices(Set done, Set chosen, Stage stage, int type) {
    stage.devices.clear();
    for (int d = first_device_[at(type)]; d < first_device_[at(type) + 1]; ++d) {
      if (uses_[at(d)] == 0) stage.devices.push_back(d);
    }
    const std::vector<int> fresh = stage.devices;
    stage.devices.clear();
    for (const int d : fresh) {
      stage.devices.push_back(d);
      const int uses =
          stage.devices.size() > 1 ? options_.segments_per_device : 1;  // Replicas: full.
      for (const int device : stage.devices) uses_[at(device)] = uses;
      push(done, chosen, stage);
      for (const int device : stage.devices) uses_[at(device)] = 0;
      if (!options_.replicas) return;
    }
  }

  void push(Set done, Set chosen, const Stage& stage) {
    split_.stages.push_back(stage);
    extend(done | chosen);
    split_.stages.pop_back();
  }

  void judge() {
    const auto found = evaluate(problem_, split_);
    if (!found.violations.empty() || found.latency > options_.latency_cap) return;
    visit_(split_, found);
  }

  const Problem& problem_;
  const Options& options_;
  const Visit& visit_;
  int groups_;
  std::vector<Set> before_;        // [group] What it needs directly.
  std::vector<int> first_device_;  // [type]; one more at the end.
  std::vector<int> uses_;          // [device] Segments on it.
  Split split_;
};

}  // namespace

std::optional<Optimum> brute_force(const Problem& problem, const Options& options) {
  std::optional<Optimum> best;
  each_split(problem, options, [&](const Split& split, const Evaluation& found) {
    const double cost = options.goal == Goal::kLatency ? found.latency : found.period;
    if (!best || cost < best->cost) best = Optimum{split, cost};
  });
  return best;
}

void each_split(const Problem& problem, const Options& options,
                const std::function<void(const Split&, const Evaluation&)>& visit) {
  BruteForce(problem, options, visit).run();
}

int most_on_a_device(const Split& split) {
  std::map<int, int> stages_on;
  int most = 0;
  for (const auto& stage : split.stages) {
    for (const int device : stage.devices) most = std::max(most, ++stages_on[device]);
  }
  return most;
}

}  // namespace penstock::planner
