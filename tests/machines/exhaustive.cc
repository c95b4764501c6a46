#include "tests/machines/exhaustive.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "penstock/planner/problem/split.h"

namespace penstock::machines {
namespace {

using planner::kInfinite;
using planner::Problem;
using Set = std::uint32_t;  // Of groups.

/// The CPUs in use of one kind of core, by what last cache and NUMA node they share: how many.
std::vector<int> bins_of(const device::Topology& topology, const device::Use& use, int kind) {
  int last = 0;
  for (const auto& cache : topology.caches) last = std::max(last, cache.level);
  std::map<std::pair<int, std::size_t>, int> bins;
  for (const auto& cpu : topology.cpus) {
    if (cpu.kind != kind || std::ranges::count(use.cpus, cpu.number) == 0) continue;
    std::size_t shared = 0;
    for (std::size_t i = 0; i < topology.caches.size(); ++i) {
      const auto& cache = topology.caches[i];
      if (cache.level == last && std::ranges::count(cache.cpus, cpu.number) > 0) shared = i;
    }
    ++bins[{cpu.numa_node, shared}];
  }
  std::vector<int> sizes;
  for (const auto& [bin, size] : bins) sizes.push_back(size);
  return sizes;
}

/// Whether devices of these widths, wide ones first, find room: each within one bin, or over bins
/// that nothing else uses.
bool fit(std::vector<int> bins, int widest, const std::vector<int>& widths, std::size_t next) {
  if (next == widths.size()) return true;
  const int width = widths[next];
  if (width > widest) {
    int room = 0;
    while (room < width && !bins.empty()) {
      room += bins.back();
      bins.pop_back();
    }
    return room >= width && fit(bins, widest, widths, next + 1);
  }
  std::vector<int> tried;
  for (auto& bin : bins) {
    if (bin < width || std::ranges::count(tried, bin) > 0) continue;
    tried.push_back(bin);
    bin -= width;
    if (fit(bins, widest, widths, next + 1)) return true;
    bin += width;
  }
  return false;
}

class Exhaustive {
 public:
  Exhaustive(const Machine& machine, Problem problem, const Wanted& wanted)
      : machine_(machine),
        problem_(std::move(problem)),
        wanted_(wanted),
        before_(problem_.groups.size(), 0),
        used_(problem_.types.size(), 0) {
    for (const auto& [before, after] : problem_.order) {
      before_[static_cast<std::size_t>(after)] |= Set{1} << static_cast<unsigned>(before);
    }
    int first = 0;
    for (auto& type : problem_.types) {
      if (!wanted.replicas)
        type.devices.resize(std::min(type.devices.size(), problem_.groups.size()));
      first_device_.push_back(first);
      first += static_cast<int>(type.devices.size());
    }
  }

  double run() {
    for (use_ = 0; use_ < machine_.groupings.uses.size(); ++use_) extend(0);
    return best_;
  }

 private:
  [[nodiscard]] const device::GroupKind& kind(std::size_t type) const {
    return machine_.groupings.kinds[type];
  }

  /// Whether the devices that are used find room together.
  bool fit_together() {
    const auto known = fits_.find({use_, used_});
    if (known != fits_.end()) return known->second;
    const auto& use = machine_.groupings.uses[use_];
    std::map<int, std::vector<int>> widths;  // By kind of core.
    int devices = 0, across = 0;
    for (std::size_t t = 0; t < used_.size(); ++t) {
      devices += used_[t];
      if (kind(t).kind < 0) across += used_[t];
      for (int n = 0; n < used_[t]; ++n) widths[kind(t).kind].push_back(kind(t).width);
    }
    bool fits = across == 0 || devices == 1;
    for (auto& [core, list] : widths) {
      if (core < 0 || !fits) continue;
      std::ranges::sort(list, std::greater<>());
      const auto bins = bins_of(machine_.topology, use, core);
      fits = std::accumulate(list.begin(), list.end(), 0) <=
                 std::accumulate(bins.begin(), bins.end(), 0) &&
             fit(bins, std::ranges::max(bins), list, 0);
    }
    fits_.emplace(std::pair(use_, used_), fits);
    return fits;
  }

  void extend(Set done) {
    const Set all = (Set{1} << static_cast<unsigned>(problem_.groups.size())) - 1;
    if (done == all) {
      const auto found = evaluate(problem_, split_);
      const double cost = wanted_.latency ? found.latency : found.period;
      if (found.violations.empty()) best_ = std::min(best_, cost);
      return;
    }
    const Set rest = all & ~done;
    for (Set chosen = rest; chosen != 0; chosen = (chosen - 1) & rest) {
      if (closed(done | chosen)) try_stage(done, chosen);
    }
  }

  [[nodiscard]] bool closed(Set set) const {
    for (std::size_t g = 0; g < before_.size(); ++g) {
      if ((set >> g & 1U) != 0 && (before_[g] & ~set) != 0) return false;
    }
    return true;
  }

  void try_stage(Set done, Set chosen) {
    planner::Stage stage;
    for (std::size_t g = 0; g < before_.size(); ++g) {
      if ((chosen >> g & 1U) != 0) stage.groups.push_back(static_cast<int>(g));
    }
    for (stage.mode = 0; stage.mode < static_cast<int>(problem_.modes.size()); ++stage.mode) {
      const auto type =
          static_cast<std::size_t>(problem_.modes[static_cast<std::size_t>(stage.mode)].type);
      if (kind(type).use == use_) try_devices(done, chosen, stage, type);
    }
  }

  void try_devices(Set done, Set chosen, planner::Stage stage, std::size_t type) {
    double compute = 0;
    for (const int group : stage.groups) {
      compute += problem_.groups[static_cast<std::size_t>(group)]
                     .time[static_cast<std::size_t>(stage.mode)];
    }
    const int before = used_[type];
    const int most = static_cast<int>(problem_.types[type].devices.size()) - before;
    stage.devices.clear();
    const bool alone = std::ranges::any_of(
        stage.groups, [&](int group) { return std::ranges::count(wanted_.alone, group) > 0; });
    const bool replicas = wanted_.replicas && !alone;
    for (int count = 1; count <= (replicas ? most : std::min(most, 1)); ++count) {
      stage.devices.push_back(first_device_[type] + before + count - 1);
      used_[type] = before + count;
      if (!fit_together()) break;
      if (compute / count >= best_) continue;  // Whatever else it costs.
      split_.stages.push_back(stage);
      extend(done | chosen);
      split_.stages.pop_back();
    }
    used_[type] = before;
  }

  const Machine& machine_;
  Problem problem_;
  const Wanted wanted_;
  std::vector<Set> before_;  // What each group needs directly.
  std::vector<int> used_;    // Devices of each type.
  std::vector<int> first_device_;
  std::map<std::pair<std::size_t, std::vector<int>>, bool> fits_;
  std::size_t use_ = 0;
  planner::Split split_;
  double best_ = kInfinite;
};

}  // namespace

double least_cost(const Machine& machine, const Problem& problem, const Wanted& wanted) {
  return Exhaustive(machine, problem, wanted).run();
}

}  // namespace penstock::machines
