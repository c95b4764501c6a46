// Order of the search: simple plans, linear orders, annealing, the proof, and annealing again.
#include "penstock/planner/latency/latency.h"

#include <algorithm>

#include "penstock/planner/latency/latency_anneal.h"
#include "penstock/planner/latency/latency_exact.h"
#include "penstock/planner/latency/latency_orders.h"
#include "penstock/planner/latency/latency_simulator.h"
#include "penstock/planner/latency/latency_tails.h"
#include "penstock/planner/problem/index.h"
#include "penstock/planner/search/small_search.h"

namespace penstock::planner {
namespace {

constexpr double kProved = 1e-9;  // Relative: the gap of a proof.
constexpr int kLatencyOrders = 24;
constexpr int kMoves = 20'000;                   // Of a round of annealing.
constexpr int kRounds = 50;                      // At most, where the budget has no end.
constexpr std::int64_t kMostPlaced = 5'000'000;  // Stages, of the search through all splits.
/// Shares of the time that is left.
constexpr double kOrdersShare = 0.2, kTailsShare = 0.2, kExactShare = 0.6, kFirstRoundShare = 0.05;

class LatencySearch {
 public:
  LatencySearch(const Problem& problem, const Options& options, const Budget& budget,
                const BoundsReport& report)
      : problem_(problem),
        options_(options),
        budget_(budget),
        report_(report),
        model_(problem),
        simulator_(problem, model_, options.segments_per_device) {}

  Outcome run() {
    if (options_.user_split) try_user_split(*options_.user_split);
    try_simple_plans();
    lower(longest_path());
    try_orders(budget_.part(kOrdersShare * budget_.left()));
    improve(1, budget_.part(kFirstRoundShare * budget_.left()));
    options_.segments_per_device == 1 ? prove() : try_small();
    improve(kRounds, budget_);
    return outcome();
  }

 private:
  [[nodiscard]] bool proved() const { return bound_ >= cost_ * (1 - kProved); }
  /// With another goal any plan below the cap will do, or that there is none.
  [[nodiscard]] bool done() const {
    const double cap = options_.latency_cap;
    return proved() || (options_.goal != Goal::kLatency &&
                        (cost_ <= cap || infeasible_ || bound_ > cap * (1 + kProved)));
  }
  void lower(double bound) {
    if (bound <= bound_) return;
    bound_ = bound;
    tell();
  }
  void tell() const {
    if (report_) report_(bound_, cost_ <= options_.latency_cap ? cost_ : kInfinite);
  }

  /// The cost of the plan, after it was kept if it is the best.
  double offer(const LatencyPlan& plan) {
    const double cost = simulator_.run(plan);
    if (cost >= cost_) return cost;
    cost_ = cost;
    plan_ = plan;
    split_ = simulator_.split();
    tell();
    return cost;
  }
  double offer_steps(const std::vector<LatencyStep>& steps) {
    const auto plan = simulator_.plan_of(steps);
    if (plan) offer(*plan);
    return cost_;
  }

  void try_user_split(const Split& split) {
    if (const auto plan = simulator_.plan_of(split)) offer(*plan);
  }

  /// Everything on one device, in each mode, or on cores.
  void try_simple_plans() {
    std::vector<int> all(at(model_.blocks));
    for (int b = 0; b < model_.blocks; ++b) all[at(b)] = b;
    for (int call = -1; call < static_cast<int>(model_.calls.size()); ++call) {
      offer_steps({{all, call}});
    }
    offer_steps(fill_devices());
  }

  /// Blocks in order, each device filled before the next is begun, the rest on cores.
  [[nodiscard]] std::vector<LatencyStep> fill_devices() const {
    std::vector<LatencyStep> steps;
    for (int m = 0; m < static_cast<int>(model_.calls.size()); ++m) {
      const auto& call = model_.calls[at(m)];
      if (m > 0 && model_.calls[at(m) - 1].type == call.type) continue;  // Another mode of it.
      steps.insert(steps.end(), at(call.devices), LatencyStep{{}, m});
    }
    steps.push_back({{}, -1});
    double held = 0;
    for (int b = 0, device = 0; b < model_.blocks; ++b) {
      double more = 0;
      for (const int g : model_.members[b]) more += model_.memory[at(g)];
      const auto cap = [&] { return model_.calls[at(steps[at(device)].call)].memory; };
      const int cores = static_cast<int>(steps.size()) - 1;
      if (device < cores && held > 0 && held + more > cap()) {
        ++device;
        held = 0;
      }
      const bool fits = device < cores && held + more <= cap();
      steps[at(fits ? device : cores)].blocks.push_back(b);
      if (fits) held += more;
    }
    return steps;
  }

  [[nodiscard]] double longest_path() const {
    std::vector<double> end(at(model_.groups), 0);
    double longest = 0;
    for (const int g : model_.topological) {
      double start = 0;
      for (const int other : model_.earlier[g]) start = std::max(start, end[at(other)]);
      end[at(g)] = start + model_.least_time(g);
      longest = std::max(longest, end[at(g)]);
    }
    return longest;
  }

  void try_orders(const Budget& budget) {
    for (std::uint64_t i = 0; i < kLatencyOrders && !budget.over() && !done(); ++i) {
      offer_steps(plan_along(model_, latency_order(model_, i), budget));
    }
  }

  void prove() {
    if (done() || budget_.over()) return;
    const LatencyTails tails(model_, budget_.part(kTailsShare * budget_.left()));
    lower(tails.bound());
    if (proved()) return;
    const auto offer = [&](const std::vector<LatencyStep>& steps) { return offer_steps(steps); };
    const auto proof =
        prove_latency(model_, tails, cost_, offer, budget_.part(kExactShare * budget_.left()));
    lower(proof.bound);
    infeasible_ = proof.infeasible;
  }

  /// Small problems: every split. What is above the cap is no split to beat.
  void try_small() {
    if (done()) return;
    const double cap = options_.latency_cap;
    auto found = search_small(problem_, options_, cost_ > cap ? kInfinite : cost_, kMostPlaced,
                              budget_.part(kExactShare * budget_.left()));
    if (found.split) {
      const auto plan = simulator_.plan_of(*found.split);
      if (plan) offer(*plan);
      if (found.cost < cost_) {  // The simulator cannot make it.
        split_ = std::move(found.split);
        cost_ = found.cost;
      }
    }
    if (!found.ended) return;
    infeasible_ = cost_ > cap;
    lower(infeasible_ ? cap : cost_);
  }

  void improve(int rounds, const Budget& budget) {
    if (!plan_) return;
    LatencyAnneal anneal(model_, simulator_, *plan_, simulator_.run(*plan_), 1);
    for (int i = 0; i < rounds && !done() && !budget.over(); ++i) {
      if (anneal.round(kMoves, budget)) offer(anneal.best());
    }
  }

  [[nodiscard]] Outcome outcome() const {
    Outcome outcome;
    outcome.lower_bound = std::min(bound_, cost_);
    outcome.infeasible =
        infeasible_ || bound_ == kInfinite || bound_ > options_.latency_cap * (1 + kProved);
    if (!split_ || cost_ > options_.latency_cap) return outcome;
    outcome.split = split_;
    outcome.cost = cost_;
    outcome.infeasible = false;
    return outcome;
  }

  const Problem& problem_;
  const Options& options_;
  const Budget& budget_;
  const BoundsReport& report_;
  LatencyModel model_;
  LatencySimulator simulator_;
  std::optional<LatencyPlan> plan_;
  std::optional<Split> split_;
  double cost_ = kInfinite, bound_ = 0;
  bool infeasible_ = false;
};

}  // namespace

Outcome search_latency(const Problem& problem, const Options& options, const Budget& budget,
                       const BoundsReport& report) {
  return LatencySearch(problem, options, budget, report).run();
}

}  // namespace penstock::planner
