// Bisects the period: dynamic programming along single orders, then SharedIdeals over all orders.
#include "penstock/planner/throughput/shares.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "penstock/planner/problem/index.h"
#include "penstock/planner/throughput/line.h"
#include "penstock/planner/throughput/shared_ideals.h"
#include "penstock/planner/throughput/sides.h"

namespace penstock::planner {
namespace {

constexpr int kHalvingsOfShares = 40;
constexpr double kFirstPeriod = 1e-9;   // Of the time of all groups.
constexpr int kMixes = 20;              // Ways to divide a part between time and memory.
constexpr int kOrdersOfShares = 8;      // Where there are several.
constexpr double kPartRounding = 3e-9;  // Of the whole.
constexpr double kCloseEnough = 1e-7;   // Of the period.
constexpr double kShareOfRun = 0.25;    // Of the time left, for one period.

/// The stages along a line that take the least part of the whole.
class SharedLine {
 public:
  SharedLine(const Line& line, const Shares& shares) : line_(line), shares_(shares) {}

  /// Stages with loads below `period` that take no more than the whole; empty: there are none.
  std::vector<Interval> run(double period) {
    const int size = line_.size();
    best_.assign(at(size) + 1, {});
    best_.front().taken = 0;
    for (int begin = 0; begin < size; ++begin) {
      if (best_[at(begin)].taken == kInfinite) continue;
      for (int m = 0; m < line_.model().instance.modes; ++m) extend(begin, m, period);
    }
    std::vector<Interval> stages;
    if (!(best_.back().taken <= shares_.whole * (1 + kPartRounding))) return stages;
    for (int end = size; end > 0; end = stages.back().begin) stages.push_back(best_[at(end)].stage);
    std::ranges::reverse(stages);
    return stages;
  }

 private:
  struct Best {
    double taken = kInfinite;  ///< Of the whole, by all stages up to this one,
    Interval stage;            ///< which ends here.
  };

  void extend(int begin, int mode, double period) {
    const auto& model = line_.model();
    const auto type = at(model.instance.mode_type[at(mode)]);
    const int most = model.replicas ? model.instance.type_count[type] : 1;
    if (model.instance.type_count[type] == 0) return;
    reached_.clear();
    line_.reach(begin, mode, most, period, true, reached_);
    for (auto stage : reached_) {
      const double load = stage.load * most;
      stage.replicas = std::min(most, std::max(1, static_cast<int>(load / period)));
      while (stage.replicas < most && !(load / stage.replicas < period)) ++stage.replicas;
      stage.load = load / stage.replicas;
      auto& best = best_[at(stage.end)];
      const double taken = best_[at(begin)].taken + stage.replicas * shares_.part[type];
      if (taken < best.taken) best = {taken, stage};
    }
  }

  const Line& line_;
  const Shares& shares_;
  std::vector<Best> best_;  // [place]
  std::vector<Interval> reached_;
};

/// Moves `low`, which is refuted, and `high`, which is not, towards each other.
template <typename Holds>
void halve(double& low, double& high, const Budget& budget, const Holds& holds) {
  for (int i = 0; i < kHalvingsOfShares && high - low > kPrecision * high && !budget.over(); ++i) {
    const double middle = 0.5 * (low + high);
    (holds(middle) ? high : low) = middle;
  }
}

/// A period that any plan keeps.
double long_period(const Instance& instance) {
  double sum = 0;
  for (int g = 0; g < instance.groups; ++g) {
    double most = 0;
    for (int m = 0; m < instance.modes; ++m) {
      const double time = instance.time_of(g, m);
      if (time < kInfinite) most = std::max(most, time);
    }
    sum += most;
  }
  double transfers = 0, launch = 0;
  for (int v = 0; v < instance.values; ++v) {
    for (int t = 0; t < instance.types; ++t) {
      transfers +=
          instance.receive[at(v, instance.types, t)] + instance.send[at(v, instance.types, t)];
    }
  }
  for (const double cost : instance.mode_launch) launch = std::max(launch, cost);
  return (1 + 1e-6) * (sum + transfers + launch) + kFirstPeriod;
}

/// Whether time and memory leave a period open: groups choose their modes one by one.
bool may_have(const Instance& instance, const Shares& shares, double period) {
  for (int mix = 0; mix <= kMixes; ++mix) {
    const double for_memory = static_cast<double>(mix) / kMixes;
    double taken = 0;
    for (int g = 0; g < instance.groups; ++g) {
      taken += least_part(instance, shares, g, period, for_memory);
    }
    if (taken > shares.whole * (1 + kPartRounding)) return false;
  }
  return true;
}

class SharePlanner {
 public:
  SharePlanner(const Model& model, const Shares& shares, const Budget& budget)
      : model_(model), shares_(shares), budget_(budget) {}

  SharedPlan run() {
    const auto& instance = model_.instance;
    const double longest = long_period(instance);
    const bool chain = is_chain(instance);
    for (int order = 0; order < (chain ? 1 : kOrdersOfShares) && !budget_.over(); ++order) {
      try_order(order, longest, chain);
    }
    if (chain) return std::move(plan_);
    double low = 0, high = longest;
    const auto holds = [&](double period) { return may_have(instance, shares_, period); };
    if (!holds(high)) {
      plan_.lower_bound = kInfinite;
      return std::move(plan_);
    }
    halve(low, high, budget_, holds);
    plan_.lower_bound = low;
    try_all_orders(longest);
    return std::move(plan_);
  }

 private:
  /// After a search that took too long only lower periods are asked for: to refute them is cheaper.
  void try_all_orders(double longest) {
    SharedIdeals ideals(model_, shares_);
    double high = std::min(longest, period_), low = plan_.lower_bound;
    while (high - low > kCloseEnough * high && !budget_.over()) {
      const double middle = 0.5 * (low + high);
      const auto found = ideals.run(middle, budget_.part(kShareOfRun * budget_.left()));
      if (found.reached == Reached::kNone) {
        plan_.lower_bound = low = middle;
      } else {
        high = middle;
      }
      if (found.reached != Reached::kFound) continue;
      plan_.split = expand(model_.instance, found.split);
      period_ = middle;
    }
  }

  void try_order(int number, double longest, bool chain) {
    const Line line(model_, numbered_order(model_.instance, number));
    SharedLine shared(line, shares_);
    std::vector<Interval> best;
    double low = 0, high = std::min(longest, period_);
    const auto holds = [&](double period) {
      auto found = shared.run(period);
      if (found.empty()) return false;
      best = std::move(found);
      return true;
    };
    if (!holds(high)) {
      if (chain) plan_.lower_bound = kInfinite;
      return;
    }
    halve(low, high, budget_, holds);
    if (chain) plan_.lower_bound = low;
    period_ = high;
    keep(line, best);
  }

  void keep(const Line& line, const std::vector<Interval>& stages) {
    Split split;
    for (const auto& interval : stages) {
      const auto begin = line.order().begin();
      split.stages.push_back({{begin + interval.begin, begin + interval.end},
                              interval.mode,
                              std::vector<int>(at(interval.replicas), -1)});
      std::ranges::sort(split.stages.back().groups);
    }
    plan_.split = expand(model_.instance, split);
  }

  const Model& model_;
  const Shares& shares_;
  const Budget& budget_;
  double period_ = kInfinite;  // Of the plan so far.
  SharedPlan plan_;
};

}  // namespace

SharedPlan plan_shares(const Problem& problem, const Options& options, const Shares& shares,
                       const Budget& budget) {
  auto side = make_side(problem, Partner::kLowest);
  if (!side) return {};
  const auto model = make_model(problem, options, *std::move(side));
  return SharePlanner(model, shares, budget).run();
}

}  // namespace penstock::planner
