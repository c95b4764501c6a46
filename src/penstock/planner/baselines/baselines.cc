// Makes each plan for every type and mode, and keeps the cheapest that evaluate() accepts.
#include "penstock/planner/baselines/baselines.h"

#include <algorithm>
#include <numeric>

#include "penstock/planner/baselines/block_partition.h"
#include "penstock/planner/baselines/pipedream.h"
#include "penstock/planner/problem/components.h"
#include "penstock/planner/problem/index.h"
#include "penstock/planner/throughput/probe.h"

namespace penstock::planner {
namespace {

constexpr double kLineSeconds = 0.1;  // For the best split of one order.

class Maker {
 public:
  Maker(const Problem& problem, const Instance& instance, const Options& options)
      : problem_(problem),
        instance_(instance),
        options_(options),
        place_(strong_components(static_cast<int>(problem.groups.size()), problem.order)) {
    first_device_.push_back(0);
    for (const auto& type : problem.types) {
      first_device_.push_back(first_device_.back() + static_cast<int>(type.devices.size()));
    }
  }

  std::vector<Baseline> run() {
    std::vector<Baseline> made;
    made.push_back(best("single_device", single_device()));
    made.push_back(best("replicate_all", replicate_all()));
    made.push_back(best("equal_split", equal_split()));
    made.push_back(best("one_order", one_order()));
    made.push_back(best("torchgpipe", torchgpipe()));
    made.push_back(best("pipedream", pipedream()));
    if (options_.user_split) made.push_back(judge("user", *options_.user_split));
    return made;
  }

 private:
  using Splits = std::vector<Split>;

  [[nodiscard]] int devices(int type) const {
    return static_cast<int>(problem_.types[at(type)].devices.size());
  }
  [[nodiscard]] std::vector<int> all_groups() const {
    std::vector<int> groups(at(instance_.groups));
    std::iota(groups.begin(), groups.end(), 0);
    return groups;
  }

  // --- Judging ---------------------------------------------------------------------------------

  [[nodiscard]] Baseline judge(const std::string& name, Split split) const {
    Baseline made{name, std::move(split), {}, true, ""};
    made.allowed = allows(options_, *made.split);
    made.evaluation = evaluate(problem_, *made.split);
    if (!made.evaluation.violations.empty()) {
      made.why_not = made.evaluation.violations.front();
    } else if (!keeps_cap(options_, made.evaluation)) {
      made.why_not = concat("latency ", made.evaluation.latency, " is above the cap of ",
                            options_.latency_cap);
    }
    return made;
  }

  /// The cheapest of the splits (of the instance) that are plans, or the first that is none.
  [[nodiscard]] Baseline best(const std::string& name, const Splits& splits) const {
    Baseline chosen{name, std::nullopt, {}, true, "no such split"};
    for (const auto& split : splits) {
      auto made = judge(name, unfold(expand(instance_, split)));
      const bool better = made.why_not.empty() && (!chosen.why_not.empty() ||
                                                   cost_of(made.evaluation, options_.goal) <
                                                       cost_of(chosen.evaluation, options_.goal));
      if (better || !chosen.split) chosen = std::move(made);
    }
    return chosen;
  }

  /// Groups that must stay together run one by one where devices have no limit.
  [[nodiscard]] Split unfold(const Split& split) const {
    Split unfolded;
    for (const auto& stage : split.stages) {
      if (!problem_.types[at(problem_.modes[at(stage.mode)].type)].unlimited) {
        unfolded.stages.push_back(stage);
        continue;
      }
      auto groups = stage.groups;
      std::ranges::sort(groups, {}, [&](int group) { return place_[at(group)]; });
      for (const int group : groups) unfolded.stages.push_back({{group}, stage.mode, {}});
    }
    return unfolded;
  }

  // --- Methods ---------------------------------------------------------------------------------

  [[nodiscard]] Splits single_device() const {
    Splits splits;
    for (int m = 0; m < instance_.modes; ++m) {
      const int type = instance_.mode_type[at(m)];
      if (problem_.types[at(type)].unlimited) {
        splits.emplace_back();
        for (int g = 0; g < instance_.groups; ++g) splits.back().stages.push_back({{g}, m, {}});
      } else if (devices(type) > 0) {
        splits.push_back({{{all_groups(), m, {first_device_[at(type)]}}}});
      }
    }
    return splits;
  }

  [[nodiscard]] Splits replicate_all() const {
    Splits splits;
    for (int m = 0; m < instance_.modes; ++m) {
      const int type = instance_.mode_type[at(m)];
      if (devices(type) == 0) continue;
      std::vector<int> all(at(devices(type)));
      std::iota(all.begin(), all.end(), first_device_[at(type)]);
      splits.push_back({{{all_groups(), m, std::move(all)}}});
    }
    return splits;
  }

  /// A group's time in the type's best mode; 0 where it has none.
  [[nodiscard]] std::vector<double> sizes_on(int type) const {
    std::vector<double> sizes;
    for (int g = 0; g < instance_.groups; ++g) {
      double least = kInfinite;
      for (int m = 0; m < instance_.modes; ++m) {
        if (instance_.mode_type[at(m)] == type) least = std::min(least, instance_.time_of(g, m));
      }
      sizes.push_back(least < kInfinite ? least : 0);
    }
    return sizes;
  }

  /// The type's mode that runs [begin, end) in the least time.
  [[nodiscard]] int best_mode(int type, int begin, int end) const {
    int chosen = -1;
    double least = kInfinite;
    for (int m = 0; m < instance_.modes; ++m) {
      if (instance_.mode_type[at(m)] != type) continue;
      double time = instance_.mode_launch[at(m)];
      for (int g = begin; g < end; ++g) time += instance_.time_of(g, m);
      if (chosen < 0 || time < least) chosen = m, least = time;
    }
    return chosen;
  }

  /// Interval i on device `on[i]`, empty ones left out.
  [[nodiscard]] Split cut(const std::vector<int>& ends, const std::vector<int>& on) const {
    Split split;
    int begin = 0;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i] == begin) continue;
      const auto next = std::ranges::upper_bound(first_device_, on[i]);
      const int type = static_cast<int>(next - first_device_.begin()) - 1;
      Stage stage{{}, best_mode(type, begin, ends[i]), {on[i]}};
      for (int g = begin; g < ends[i]; ++g) stage.groups.push_back(g);
      split.stages.push_back(std::move(stage));
      begin = ends[i];
    }
    return split;
  }

  /// Whether the type has devices, and a mode.
  [[nodiscard]] bool usable(int type) const {
    return devices(type) > 0 && std::ranges::count(instance_.mode_type, type) > 0;
  }

  [[nodiscard]] Splits equal_split() const {
    Splits splits;
    std::vector<double> mean(at(instance_.groups), 0), shares;  // Over the types, each scaled to 1.
    std::vector<int> everywhere;
    for (int t = 0; t < instance_.types; ++t) {
      if (!usable(t)) continue;
      const auto sizes = sizes_on(t);
      std::vector<int> on(at(devices(t)));
      std::iota(on.begin(), on.end(), first_device_[at(t)]);
      splits.push_back(cut(share_partition(sizes, std::vector<double>(on.size(), 1)), on));
      const double whole = std::max(1e-300, std::accumulate(sizes.begin(), sizes.end(), 0.0));
      for (std::size_t g = 0; g < mean.size(); ++g) mean[g] += sizes[g] / whole;
      shares.insert(shares.end(), on.size(), 1 / whole);
      everywhere.insert(everywhere.end(), on.begin(), on.end());
    }
    if (splits.size() > 1) splits.push_back(cut(share_partition(mean, shares), everywhere));
    return splits;
  }

  [[nodiscard]] Splits torchgpipe() const {
    Splits splits;
    for (int t = 0; t < instance_.types; ++t) {
      if (!usable(t)) continue;
      std::vector<int> on(at(devices(t)));
      std::iota(on.begin(), on.end(), first_device_[at(t)]);
      splits.push_back(cut(block_partition(sizes_on(t), devices(t)), on));
    }
    return splits;
  }

  /// Devices of each type; none of those without limit, which the instance counts.
  [[nodiscard]] std::vector<int> device_counts() const {
    std::vector<int> counts;
    for (int t = 0; t < instance_.types; ++t) counts.push_back(devices(t));
    return counts;
  }

  [[nodiscard]] Splits pipedream() const {
    auto split = pipedream_split(instance_, device_counts(), Budget(kLineSeconds, {}));
    if (!split) return {};
    return {*std::move(split)};
  }

  [[nodiscard]] Splits one_order() const {
    Model model;
    model.instance = instance_;
    model.instance.type_count = device_counts();
    model.prices = make_prices(model.instance);
    const Line line(model, depth_first_order(instance_, false));
    const auto found = best_on_line(line, 0, kInfinite, Budget(kLineSeconds, {}));
    if (found.stages.empty()) return {};
    return {split_of(line, found.stages)};
  }

  const Problem& problem_;
  const Instance& instance_;
  const Options& options_;
  std::vector<int> place_;         // [problem's group] In a topological order.
  std::vector<int> first_device_;  // [type]; one more at the end.
};

}  // namespace

std::vector<Baseline> make_baselines(const Problem& problem, const Instance& instance,
                                     const Options& options) {
  return Maker(problem, instance, options).run();
}

}  // namespace penstock::planner
