#include "penstock/planner/solve.h"

#include <algorithm>
#include <numeric>

#include "penstock/planner/contiguous.h"
#include "penstock/planner/index.h"
#include "penstock/planner/latency.h"
#include "penstock/planner/virtual_stages.h"

namespace penstock::planner {
namespace {

/// Share of the time for the contiguous split from which virtual stages start.
constexpr double kStartShare = 0.2;
/// Shares, in seconds and of the time used so far, for what explains the answer.
constexpr double kExplainSeconds = 0.02;
constexpr double kExplainShare = 0.05;

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

class Solver {
 public:
  Solver(const Problem& problem, const Options& options)
      : problem_(problem), options_(options), budget_(options.seconds, options.interrupted) {}

  Result<Answer> run() {
    PENSTOCK_TRY(const auto instance, make_instance(problem_, Partner::kHighest));
    PENSTOCK_CHECK_OK(check_options());
    PENSTOCK_CHECK_OK(check_memory());
    answer_.baselines = make_baselines(problem_, instance, options_);
    for (const auto& baseline : answer_.baselines) {
      if (baseline.competes()) add(*baseline.split, baseline.evaluation);
    }
    PENSTOCK_CHECK_OK(search());
    if (candidates_.empty()) return nothing_found();
    return finish();
  }

 private:
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

  /// The devices of limited memory may be too small for all the groups together.
  Status check_memory() const {
    double needed = 0, there = 0;
    for (const auto& group : problem_.groups) needed += group.memory;
    for (const auto& type : problem_.types) {
      if (type.unlimited) return {};
      for (std::size_t d = 0; d < type.devices.size(); ++d) there += type.memory;
    }
    if (needed <= there) return {};
    return make_error(Code::kFailedPrecondition, "the groups need ", needed,
                      " bytes together, all devices have ", there);
  }

  void add(Split split, Evaluation evaluation) {
    const double cost = cost_of(evaluation, options_.goal);
    candidates_.push_back({std::move(split), std::move(evaluation), cost});
  }

  [[nodiscard]] const Candidate& best() const {
    return *std::ranges::min_element(candidates_, better);
  }

  /// Takes what a search found; its bound counts where it holds for all that the options allow.
  Status take(Outcome outcome, bool bounds_all, const char* search) {
    if (outcome.split) {
      auto found = evaluate(problem_, *outcome.split);
      if (!found.violations.empty() || found.latency > options_.latency_cap * (1 + kProofGap) ||
          !allows(options_, *outcome.split)) {
        return internal_error("the ", search, " search gave a split that is none: ",
                              found.violations.empty() ? "not allowed" : found.violations.front());
      }
      add(*std::move(outcome.split), std::move(found));
    }
    if (!bounds_all) return {};
    answer_.lower_bound = std::max(answer_.lower_bound, outcome.lower_bound);
    infeasible_ = outcome.infeasible;
    if (candidates_.empty()) return {};
    if (infeasible_ || answer_.lower_bound > best().cost * (1 + kProofGap)) {
      return internal_error("the ", search, " search gave the bound ", outcome.lower_bound,
                            infeasible_ ? " (infeasible)" : "", ", but a split costs ",
                            best().cost);
    }
    return {};
  }

  Status search() {
    if (options_.goal == Goal::kLatency) {
      return take(search_latency(problem_, options_, budget_), true, "latency");
    }
    const bool segments = options_.segments_per_device > 1;
    auto contiguous = options_;
    contiguous.segments_per_device = 1;
    const auto part = segments ? budget_.part(kStartShare * budget_.left()) : budget_;
    PENSTOCK_CHECK_OK(take(search_contiguous(problem_, contiguous, part), !segments, "contiguous"));
    if (!segments) return {};
    return take(search_virtual(problem_, options_, virtual_start(), budget_), true,
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
    if (infeasible_) {
      const bool capped = options_.latency_cap < kInfinite;
      return make_error(Code::kFailedPrecondition, "no plan exists: ",
                        capped
                            ? concat("none that fits the devices' memory has a latency of at most ",
                                     options_.latency_cap)
                            : "the groups cannot be divided among the devices' memory");
    }
    if (options_.interrupted && options_.interrupted()) {
      return make_error(Code::kCancelled, "interrupted before any plan was found");
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

  Answer finish() {
    answer_.split = best().split;
    answer_.evaluation = best().evaluation;
    answer_.cost = best().cost;
    answer_.lower_bound = std::min(answer_.lower_bound, answer_.cost);
    answer_.gap = answer_.cost == 0         ? 0
                  : answer_.lower_bound > 0 ? answer_.cost / answer_.lower_bound - 1
                                            : kInfinite;
    answer_.proved = answer_.gap <= kProofGap;
    const Budget explaining(kExplainSeconds + kExplainShare * budget_.elapsed(),
                            options_.interrupted);
    answer_.runner_up = find_runner_up(explaining);
    answer_.binding = find_binding(problem_, options_, answer_.split, answer_.evaluation);
    if (memory_binds(explaining)) answer_.binding = {Binding::Kind::kMemory, "", ""};
    answer_.seconds = budget_.elapsed();
    return std::move(answer_);
  }

  [[nodiscard]] std::optional<RunnerUp> find_runner_up(const Budget& budget) const {
    auto second = best_neighbour(problem_, options_, answer_.split, budget.part(budget.left() / 2));
    for (const auto& other : candidates_) {
      if (same_stages(other.split, answer_.split)) continue;
      if (!second || other.cost < second->cost) second = RunnerUp{other.split, other.cost};
    }
    return second;
  }

  /// Whether a cheaper split is found once no memory has a cap. Asked where a device is nearly
  /// full.
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
    if (!full || options_.goal == Goal::kLatency) return false;
    auto free = problem_;
    for (auto& type : free.types) type.memory = kInfinite;
    auto options = options_;
    options.segments_per_device = 1;
    const auto outcome = search_contiguous(free, options, budget);
    return outcome.split && evaluate(free, *outcome.split).period < answer_.cost * (1 - kProofGap);
  }

  const Problem& problem_;
  const Options& options_;
  Budget budget_;
  std::vector<Candidate> candidates_;
  bool infeasible_ = false;
  Answer answer_;
};

}  // namespace

Result<Answer> solve(const Problem& problem, const Options& options) {
  return Solver(problem, options).run();
}

}  // namespace penstock::planner
