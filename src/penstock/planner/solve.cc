// The order of solving: checks, baselines, search, less latency at the best period, explanation.
#include "penstock/planner/solve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "penstock/planner/latency/latency.h"
#include "penstock/planner/problem/index.h"
#include "penstock/planner/throughput/contiguous.h"
#include "penstock/planner/throughput/memory.h"
#include "penstock/planner/throughput/virtual_stages.h"

namespace penstock::planner {
namespace {

/// Most of the time for one stage a device where more are allowed.
constexpr double kStartShare = 0.2;
/// Stages a device that are searched first where more are allowed.
constexpr std::array kFewStages{1, 2, 3, 4, 6, 8};
/// Of its time, for which a search of fewer goes on without a gain.
constexpr double kIdleShare = 0.25;
/// Shares, in seconds and of the time used so far, for what explains the answer.
constexpr double kExplainSeconds = 0.02;
constexpr double kExplainShare = 0.05;
/// The same for plans of the same period and less latency; and where looking for them ends.
constexpr double kShortenSeconds = 0.03;
constexpr double kShortenShare = 0.1;
constexpr double kShortEnough = 0.995;

struct Candidate {
  Split split;
  Evaluation evaluation;
  double cost = kInfinite;
};

/// Of two costs that differ by rounding only, the lower latency decides.
bool better(const Candidate& a, const Candidate& b) {
  constexpr double kRounding = 1e-12;
  if (std::abs(a.cost - b.cost) > kRounding * b.cost) return a.cost < b.cost;
  return a.evaluation.latency < b.evaluation.latency;
}

/// What Options::report is told: bounds that move towards each other only.
class Bounds {
 public:
  explicit Bounds(const BoundsReport& report) : report_(report) {}

  void move(double lower_bound, double cost) {
    cost = std::min(cost, cost_);
    lower_bound = std::max(lower_, std::min(lower_bound, cost));
    if (lower_bound <= lower_ && cost >= cost_) return;
    lower_ = lower_bound;
    cost_ = cost;
    if (report_) report_(lower_, cost_);
  }

 private:
  const BoundsReport& report_;
  double lower_ = 0, cost_ = kInfinite;
};

class Solver {
 public:
  Solver(const Problem& problem, const Options& options)
      : problem_(problem),
        options_(options),
        budget_(options.seconds, options.interrupted),
        bounds_(options.report) {}

  Result<Answer> run(bool explained) {
    PENSTOCK_CHECK_OK(check_room());
    PENSTOCK_CHECK_OK(check_options());
    add_baselines();
    PENSTOCK_CHECK_OK(search());
    if (candidates_.empty()) return nothing_found();
    if (explained) shorten();
    if (explained) descend();
    settle();
    if (explained) explain();
    answer_.seconds = budget_.elapsed();
    return std::move(answer_);
  }

 private:
  Status check_room() {
    auto checked = check_groups();
    if (checked) checked = check_memory(problem_);
    if (!checked) bounds_.move(kInfinite, kInfinite);
    return checked;
  }

  /// Whether each group, with what it must stay with, has a device. Several stages of a device may
  /// leave out what lies between those groups.
  [[nodiscard]] Status check_groups() const {
    auto problem = problem_;
    PENSTOCK_CHECK_OK(validate(problem));
    if (options_.segments_per_device > 1) problem.order.clear();
    const auto instance = make_instance(problem, Partner::kHighest);
    if (!instance) return instance.error();
    return {};
  }

  /// The plans that people make by hand; they have one stage on a device.
  void add_baselines() {
    const auto instance = make_instance(problem_, Partner::kHighest);
    if (instance) answer_.baselines = make_baselines(problem_, *instance, options_);
    for (const auto& baseline : answer_.baselines) {
      if (baseline.competes()) add(*baseline.split, baseline.evaluation);
    }
    if (!instance && options_.user_split && allows(options_, *options_.user_split)) {
      auto found = evaluate(problem_, *options_.user_split);
      if (keeps_cap(options_, found)) add(*options_.user_split, std::move(found));
    }
  }

  Status check_options() const {
    if (options_.segments_per_device < 1) {
      return invalid_argument("expected 1 or more segments per device, found ",
                              options_.segments_per_device);
    }
    if (!(options_.latency_cap >= 0)) {
      return invalid_argument("expected a latency cap of 0 or more, found ", options_.latency_cap);
    }
    if (!options_.user_split) return {};
    const auto found = evaluate(problem_, *options_.user_split);
    if (found.violations.empty()) return {};
    return invalid_argument("the given split: ", found.violations.front());
  }

  void add(Split split, Evaluation evaluation) {
    const double cost = cost_of(evaluation, options_.goal);
    candidates_.push_back({std::move(split), std::move(evaluation), cost});
    bounds_.move(0, cost);
  }

  [[nodiscard]] const Candidate& best() const {
    return *std::ranges::min_element(candidates_, better);
  }

  /// Takes what a search found; its bound counts where it holds for all that the options allow.
  Status take(Outcome outcome, bool bounds_all, const char* search) {
    if (outcome.split) {
      auto found = evaluate(problem_, *outcome.split);
      if (!found.violations.empty() || !keeps_cap(options_, found) ||
          !allows(options_, *outcome.split)) {
        return internal_error("the ", search, " search gave a split that is none: ",
                              found.violations.empty() ? "not allowed" : found.violations.front());
      }
      add(*std::move(outcome.split), std::move(found));
    }
    if (!bounds_all) return {};
    answer_.lower_bound = std::max(answer_.lower_bound, outcome.lower_bound);
    bounds_.move(outcome.infeasible ? kInfinite : outcome.lower_bound, kInfinite);
    infeasible_ = outcome.infeasible;
    if (candidates_.empty()) return {};
    if (infeasible_ || answer_.lower_bound > best().cost * (1 + kProofGap)) {
      return internal_error("the ", search, " search gave the bound ", outcome.lower_bound,
                            infeasible_ ? " (infeasible)" : "", ", but a split costs ",
                            best().cost);
    }
    return {};
  }

  /// With ever more stages a device, each time from the best until then and for as long as all the
  /// times before together: what few of them can do is looked for as it is where no more are
  /// allowed.
  Status search() {
    const auto counts = stage_counts();
    const double seconds = budget_.left(), before = budget_.elapsed();
    for (std::size_t i = 0; i + 1 < counts.size(); ++i) {
      auto options = options_;
      options.segments_per_device = counts[i];
      const double half = std::ldexp(1, static_cast<int>(i + 1 - counts.size()));
      const double end = seconds * (counts[i] == 1 ? std::min(half, kStartShare) : half);
      const double left = end - (budget_.elapsed() - before);
      const double begin = budget_.elapsed();
      const auto idle = [&] {
        return budget_.over() || budget_.elapsed() - std::max(begin, gained_) > kIdleShare * left;
      };
      PENSTOCK_CHECK_OK(search_with(options, Budget(left, idle), false));
    }
    return search_with(options_, budget_, true);
  }

  /// Those that are searched, up to the most that is allowed and of use.
  [[nodiscard]] std::vector<int> stage_counts() const {
    const int most =
        std::min(options_.segments_per_device, static_cast<int>(problem_.groups.size()));
    std::vector<int> counts;
    for (const int count : kFewStages) {
      if (count < most) counts.push_back(count);
    }
    counts.push_back(most);
    return counts;
  }

  /// `bounds_all`: the options are the caller's.
  Status search_with(Options options, const Budget& budget, bool bounds_all) {
    const BoundsReport tell = [this, bounds_all, least = kInfinite](double lower,
                                                                    double cost) mutable {
      if (cost < least) gained_ = budget_.elapsed();
      least = std::min(least, cost);
      bounds_.move(bounds_all ? lower : 0, cost);
    };
    auto start = virtual_start();
    if (options.goal == Goal::kLatency) {
      if (!start.stages.empty()) options.user_split = std::move(start);
      return take(search_latency(problem_, options, budget, tell), bounds_all, "latency");
    }
    if (options.segments_per_device == 1) {
      return take(search_contiguous(problem_, options, budget, tell), bounds_all, "contiguous");
    }
    return take(search_virtual(problem_, options, start, budget, tell), bounds_all,
                "virtual stages");
  }

  /// The best split of stages on one device each; empty where there is none.
  [[nodiscard]] Split virtual_start() const {
    const Candidate* start = nullptr;
    for (const auto& candidate : candidates_) {
      const bool single = std::ranges::all_of(
          candidate.split.stages, [](const Stage& stage) { return stage.devices.size() == 1; });
      if (single && (start == nullptr || better(candidate, *start))) start = &candidate;
    }
    return start == nullptr ? Split() : start->split;
  }

  [[nodiscard]] Error nothing_found() const {
    const auto scope = problem_.scope.empty() ? "" : " " + problem_.scope;
    if (infeasible_) {
      const bool capped = options_.latency_cap < kInfinite;
      return make_error(Code::kFailedPrecondition, "no plan exists", scope, ": ",
                        capped
                            ? concat("none that fits the devices' memory has a latency of at most ",
                                     options_.latency_cap, problem_.in_seconds ? " s" : "")
                            : undivided_text(problem_, options_));
    }
    if (options_.interrupted && options_.interrupted()) {
      return make_error(Code::kCancelled, "stopped before any plan was found");
    }
    if (!budget_.over()) {
      return make_error(Code::kFailedPrecondition,
                        "no plan was found, though none is proved impossible; memory",
                        options_.latency_cap < kInfinite ? " and the latency cap leave" : " leaves",
                        " too little room");
    }
    return make_error(Code::kDeadlineExceeded, "no plan was found in ", budget_.elapsed(),
                      " seconds; give more time");
  }

  /// Looks for less latency at the best period, of one stage a device: below caps that close in on
  /// the least for which a plan is found.
  void shorten() {
    if (options_.goal != Goal::kThroughput || options_.segments_per_device > 1) return;
    const auto budget = budget_.part(kShortenSeconds + kShortenShare * budget_.elapsed());
    double none = 0;  // The highest cap without a plan.
    for (double cap = 0; !budget.over(); cap = (none + best().evaluation.latency) / 2) {
      const double latency = best().evaluation.latency;
      if (cap == 0) cap = latency * kShortEnough;
      if (cap > latency * kShortEnough) return;
      if (!shorten_below(cap, budget)) none = cap;
    }
  }

  /// Whether a plan of the best period below the cap was found.
  bool shorten_below(double cap, const Budget& budget) {
    constexpr double kRounding = 1 + 1e-12;
    const double period = best().cost * kRounding;
    double lower = 0, cost = kInfinite;
    auto options = options_;
    options.latency_cap = cap;
    options.user_split.reset();
    const BoundsReport watch = [&](double below, double above) { lower = below, cost = above; };
    const Budget part(budget.left(),
                      [&] { return budget.over() || lower > period || cost <= period; });
    auto found = search_contiguous(problem_, options, part, watch);
    if (!found.split || !(found.cost <= period)) return false;
    auto evaluation = evaluate(problem_, *found.split);
    if (!evaluation.violations.empty() || !keeps_cap(options, evaluation)) return false;
    add(*std::move(found.split), std::move(evaluation));
    return true;
  }

  /// Takes the neighbour as long as it is cheaper: a search that ran out of time may end above it,
  /// and no runner-up shall be better than the answer.
  void descend() {
    const Budget budget(kExplainSeconds + kExplainShare * budget_.elapsed(), options_.interrupted);
    while (!budget.over()) {
      neighbour_ = best_neighbour(problem_, options_, best().split, budget);
      if (!neighbour_ || !(neighbour_->cost < best().cost * (1 - kSame))) return;
      auto found = evaluate(problem_, neighbour_->split);
      if (!allows(options_, neighbour_->split)) return neighbour_.reset();
      add(std::move(neighbour_->split), std::move(found));
      neighbour_.reset();
    }
  }

  void settle() {
    answer_.split = best().split;
    answer_.evaluation = best().evaluation;
    answer_.cost = best().cost;
    planner::settle(answer_);
  }

  void explain() {
    const Budget explaining(kExplainSeconds + kExplainShare * budget_.elapsed(),
                            options_.interrupted);
    answer_.runner_up = find_runner_up(explaining);
    take_cheaper_runner_up();
    answer_.binding = find_binding(problem_, options_, answer_.split, answer_.evaluation);
    if (memory_binds(explaining)) answer_.binding = {Binding::Kind::kMemory, "", ""};
  }

  [[nodiscard]] std::optional<RunnerUp> find_runner_up(const Budget& budget) const {
    auto second = neighbour_ ? neighbour_
                             : best_neighbour(problem_, options_, answer_.split,
                                              budget.part(budget.left() / 2));
    for (const auto& other : candidates_) {
      if (same_stages(other.split, answer_.split)) continue;
      if (!second || other.cost < second->cost) second = RunnerUp{other.split, other.cost};
    }
    return second;
  }

  /// descend() may have had no time for one.
  void take_cheaper_runner_up() {
    const auto& second = answer_.runner_up;
    if (!second || !(second->cost < answer_.cost * (1 - kSame))) return;
    if (!allows(options_, second->split)) return answer_.runner_up.reset();
    replace_split(problem_, options_, Split(second->split), answer_);
    bounds_.move(0, answer_.cost);
  }

  /// Whether a cheaper split, of one stage a device, is found once no memory has a cap. Asked where
  /// a device is nearly full.
  [[nodiscard]] bool memory_binds(const Budget& budget) const {
    constexpr double kNearlyFull = 0.9;
    bool full = false;
    std::size_t device = 0;
    for (const auto& type : problem_.types) {
      for (std::size_t d = 0; d < type.devices.size(); ++d, ++device) {
        const double held = answer_.evaluation.devices[device].memory;
        full = full || (type.memory < kInfinite && held >= kNearlyFull * type.memory);
      }
    }
    if (!full) return false;
    auto free = problem_;
    for (auto& type : free.types) type.memory = kInfinite;
    auto options = options_;
    options.segments_per_device = 1;
    const auto outcome = options.goal == Goal::kLatency ? search_latency(free, options, budget)
                                                        : search_contiguous(free, options, budget);
    if (!outcome.split) return false;
    return cost_of(evaluate(free, *outcome.split), options.goal) < answer_.cost * (1 - kProofGap);
  }

  static constexpr double kSame = 1e-9;  // Costs that differ by less differ by rounding.

  const Problem& problem_;
  const Options& options_;
  Budget budget_;
  Bounds bounds_;
  std::vector<Candidate> candidates_;
  std::optional<RunnerUp> neighbour_;  ///< The best one of the answer, once it is known.
  bool infeasible_ = false;
  double gained_ = 0;  ///< When a search last told of a lower cost, by the budget's clock.
  Answer answer_;
};

}  // namespace

Result<Answer> solve(const Problem& problem, const Options& options) {
  return Solver(problem, options).run(true);
}

Result<Answer> solve_unexplained(const Problem& problem, const Options& options) {
  return Solver(problem, options).run(false);
}

}  // namespace penstock::planner
