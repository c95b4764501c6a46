// Bounds each grouping, then solves those that may still win, in rounds of doubled time.
#include "penstock/planner/choose.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "penstock/planner/bounds/prices.h"
#include "penstock/planner/problem/index.h"
#include "penstock/planner/problem/instance.h"
#include "penstock/planner/solve.h"
#include "penstock/planner/throughput/shares.h"

namespace penstock::planner {
namespace {

constexpr double kFirstShare = 0.25;   ///< Of the time, for the first look at all groupings.
constexpr double kMostFirst = 0.05;    ///< Seconds of the first look at one of them;
constexpr double kLeastFirst = 0.002;  ///< as solving begins with many plans, no less.
constexpr double kLonger = 2;          ///< So much longer is the next look.
constexpr double kExhausted = 0.9;     ///< Of its time: a search that ended before knows no more.
constexpr double kSharesPart = 0.4;    ///< Of the time, for groupings as shares of one whole,
constexpr double kSharedPart = 0.05;   ///< and for the grouping that such a plan is of.

/// A grouping that may have a better plan than the best so far.
struct Open {
  std::size_t grouping = 0;
  double bound = 0;        ///< No plan of it costs less.
  bool exhausted = false;  ///< More time finds nothing.
};

/// What no plan of the problem costs less than; infinite: it has none.
double bound_of(const Problem& problem, const Options& options) {
  const auto instance = make_instance(problem, Partner::kLowest);
  if (!instance) return kInfinite;
  const bool throughput = options.goal == Goal::kThroughput;
  const auto prices = throughput ? make_prices(*instance) : std::vector<Prices>();
  return period_bound(*instance, prices, throughput && options.replicas);
}

/// Counts of devices that a plan can use: without replicas each has a group of its own.
std::vector<Counts> usable(const Problem& problem, std::vector<Counts> groupings,
                           const Options& options) {
  if (options.replicas) return groupings;
  const int groups = static_cast<int>(problem.groups.size());
  for (auto& counts : groupings) {
    for (int& count : counts) count = std::min(count, groups);
  }
  return groupings;
}

/// Whether `more` has each device that `counts` have.
bool covers(const Counts& more, const Counts& counts) {
  return std::ranges::equal(more, counts, std::greater_equal<>());
}

/// Devices as shares: of each type all that any grouping has are one, and no grouping has more than
/// the whole.
Shares shares_of(const Problem& problem, const std::vector<Counts>& groupings) {
  Shares shares;
  for (std::size_t t = 0; t < problem.types.size(); ++t) {
    int most = 0;
    for (const auto& counts : groupings) most = std::max(most, counts[t]);
    shares.part.push_back(most == 0 || problem.types[t].unlimited ? 0 : 1.0 / most);
  }
  for (const auto& counts : groupings) {
    double sum = 0;
    for (std::size_t t = 0; t < counts.size(); ++t) sum += shares.part[t] * counts[t];
    shares.whole = std::max(shares.whole, sum);
  }
  return shares;
}

/// How many devices of each type the stages have.
Counts counts_in(const Problem& problem, const Split& split) {
  Counts counts(problem.types.size(), 0);
  for (const auto& stage : split.stages) {
    counts[at(problem.modes[at(stage.mode)].type)] += static_cast<int>(stage.devices.size());
  }
  return counts;
}

/// A split of the problem as one of with_counts(): with the first devices of each type.
Split deal_devices(const Problem& problem, const Counts& counts, Split split) {
  std::vector<int> next(counts.size(), 0), number(problem.modes.size(), -1);
  int devices = 0, modes = 0;
  for (std::size_t t = 0; t < counts.size(); ++t) {
    next[t] = devices;
    if (!problem.types[t].unlimited) devices += counts[t];
  }
  for (std::size_t m = 0; m < problem.modes.size(); ++m) {
    const auto type = at(problem.modes[m].type);
    if (problem.types[type].unlimited || counts[type] > 0) number[m] = modes++;
  }
  for (auto& stage : split.stages) {
    auto& device = next[at(problem.modes[at(stage.mode)].type)];
    for (int& index : stage.devices) index = device++;
    stage.mode = number[at(stage.mode)];
  }
  return split;
}

class Chooser {
 public:
  Chooser(const Problem& problem, const std::vector<Counts>& groupings, const Options& options)
      : problem_(problem),
        groupings_(groupings),
        options_(options),
        budget_(options.seconds, options.interrupted) {}

  Result<Choice> run() {
    PENSTOCK_CHECK_OK(check());
    counts_ = usable(problem_, groupings_, options_);
    bound_all();
    PENSTOCK_CHECK_OK(share_out());
    const auto share = kFirstShare * options_.seconds / static_cast<double>(open_.size() + 1);
    double seconds = std::clamp(share, kLeastFirst, kMostFirst);
    while (!open_.empty() && !budget_.over()) {
      PENSTOCK_CHECK_OK(look_at_all(seconds));
      seconds *= kLonger;
    }
    // Where the bounds took all of the time, the most promising grouping is looked at nonetheless.
    const bool stopped = options_.interrupted && options_.interrupted();
    if (searched_.empty() && !open_.empty() && !stopped) {
      PENSTOCK_CHECK_OK(look_at(open_.front(), kMostFirst));
    }
    if (!best_) return none();
    return answer(seconds);
  }

 private:
  [[nodiscard]] Status check() const {
    if (groupings_.empty()) return invalid_argument("expected a grouping or more, found none");
    for (std::size_t i = 0; i < groupings_.size(); ++i) {
      const auto& counts = groupings_[i];
      if (counts.size() != problem_.types.size()) {
        return invalid_argument("grouping ", i, ": expected a count for each of ",
                                problem_.types.size(), " types, found ", counts.size());
      }
      for (std::size_t t = 0; t < counts.size(); ++t) {
        const auto& type = problem_.types[t];
        if (type.unlimited || (counts[t] >= 0 && at(counts[t]) <= type.devices.size())) continue;
        return invalid_argument("grouping ", i, ": expected from 0 to ", type.devices.size(),
                                " devices of type '", type.name, "', found ", counts[t]);
      }
    }
    return {};
  }

  void bound_all() {
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (is_covered(i)) continue;
      const double bound = bound_of(with_counts(problem_, counts_[i]), options_);
      if (bound < kInfinite) open_.push_back({i, bound});
    }
    order();
  }

  /// What no grouping beats, and a grouping with a plan that is near it.
  Status share_out() {
    if (open_.empty() || options_.goal != Goal::kThroughput || options_.segments_per_device > 1) {
      return {};
    }
    const auto plan = plan_shares(problem_, options_, shares_of(problem_, groupings_),
                                  budget_.part(kSharesPart * options_.seconds));
    for (auto& open : open_) open.bound = std::max(open.bound, plan.lower_bound);
    std::erase_if(open_, [](const Open& open) { return open.bound == kInfinite; });
    if (plan.split.stages.empty()) return {};
    const auto used = counts_in(problem_, plan.split);
    for (auto& open : open_) {
      const auto& counts = counts_[open.grouping];
      if (!covers(counts, used)) continue;
      return look_at(open, kSharedPart * options_.seconds,
                     deal_devices(problem_, counts, plan.split));
    }
    return {};
  }

  /// Whether another grouping has all plans that this one has.
  [[nodiscard]] bool is_covered(std::size_t grouping) const {
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (i == grouping || !covers(counts_[i], counts_[grouping])) continue;
      if (i < grouping || !covers(counts_[grouping], counts_[i])) return true;
    }
    return false;
  }

  /// Stable: of equal bounds the first grouping is the first.
  void order() { std::ranges::stable_sort(open_, {}, &Open::bound); }

  [[nodiscard]] double cost() const { return best_ ? best_->cost : kInfinite; }
  [[nodiscard]] bool promises(const Open& open) const {
    return open.bound < cost() * (1 - kProofGap);
  }

  /// Solves each that promises something, so long at most; then forgets those that do no more.
  Status look_at_all(double seconds) {
    for (auto& open : open_) {
      if (budget_.over()) return {};
      if (promises(open)) PENSTOCK_CHECK_OK(look_at(open, std::min(seconds, budget_.left())));
    }
    for (const auto& open : open_) {
      if (open.exhausted && promises(open)) floor_ = std::min(floor_, open.bound);
    }
    std::erase_if(open_, [&](const Open& open) { return open.exhausted || !promises(open); });
    order();
    return {};
  }

  /// `start`: a split of the grouping to begin with, if it is one.
  Status look_at(Open& open, double seconds, const Split& start = {}) {
    searched_.resize(groupings_.size());
    searched_[open.grouping] = 1;
    auto options = options_;
    options.seconds = seconds;
    options.user_split.reset();
    options.report = [&](double lower, double) { open.bound = std::max(open.bound, lower); };
    options.interrupted = [&] {
      return !promises(open) || (options_.interrupted && options_.interrupted());
    };
    const auto problem = with_counts(problem_, counts_[open.grouping]);
    if (!start.stages.empty() && evaluate(problem, start).violations.empty()) {
      options.user_split = start;
    }
    auto found = solve_unexplained(problem, options);
    if (!found) return take(std::move(found).error(), open);
    open.bound = std::max(open.bound, found->lower_bound);
    open.exhausted = found->proved || found->seconds < kExhausted * seconds;
    if (!best_ || better(*found, open.grouping)) {
      best_ = *std::move(found);
      grouping_ = open.grouping;
    }
    if (options_.report) options_.report(lower_bound(), cost());
    return {};
  }

  Status take(Error error, Open& open) {
    if (error.code != Code::kFailedPrecondition && error.code != Code::kDeadlineExceeded &&
        error.code != Code::kCancelled) {
      return error;
    }
    if (error.code == Code::kFailedPrecondition) open.exhausted = true;
    if (!error_ || open.grouping < error_from_) {
      error_ = std::move(error);
      error_from_ = open.grouping;
    }
    return {};
  }

  [[nodiscard]] bool better(const Answer& answer, std::size_t grouping) const {
    constexpr double kRounding = 1e-12;
    if (std::abs(answer.cost - cost()) > kRounding * cost()) return answer.cost < cost();
    return grouping < grouping_;
  }

  /// Of all groupings.
  [[nodiscard]] double lower_bound() const {
    double lower = std::min(floor_, cost());
    for (const auto& open : open_) lower = std::min(lower, open.bound);
    return lower;
  }

  [[nodiscard]] Error none() const {
    if (options_.interrupted && options_.interrupted()) {
      return make_error(Code::kCancelled, "stopped before any plan was found");
    }
    if (error_) return *error_;
    // No grouping has a bound: solving says why.
    auto options = options_;
    options.seconds = kMostFirst;
    options.user_split.reset();
    const auto found = solve_unexplained(with_counts(problem_, counts_.front()), options);
    return found ? internal_error("a bound ruled out groupings that have plans") : found.error();
  }

  Result<Choice> answer(double seconds) {
    Choice choice;
    choice.grouping = grouping_;
    choice.problem = with_counts(problem_, counts_[grouping_]);
    auto options = options_;
    options.user_split = best_->split;
    options.seconds = std::min(seconds, std::max(kLeastFirst, budget_.left()));
    options.report = nullptr;
    const double lower = lower_bound();
    PENSTOCK_TRY(choice.answer, solve(choice.problem, options));
    std::erase_if(choice.answer.baselines,
                  [](const Baseline& baseline) { return baseline.name == "user"; });  // No user's.
    choice.answer.lower_bound = std::min(lower, choice.answer.cost);
    settle(choice.answer);
    choice.answer.seconds = budget_.elapsed();
    choice.searched = static_cast<std::size_t>(std::ranges::count(searched_, 1));
    choice.settled = groupings_.size() - open_.size();
    return choice;
  }

  const Problem& problem_;
  const std::vector<Counts>& groupings_;
  const Options& options_;
  const Budget budget_;
  std::vector<Counts> counts_;  ///< usable() ones of the groupings.
  std::vector<Open> open_;      ///< Bounds ascending.
  double floor_ = kInfinite;    ///< The least bound of those that no more time would help.
  std::vector<char> searched_;
  std::optional<Answer> best_;
  std::size_t grouping_ = 0;  ///< That `best_` is of.
  std::optional<Error> error_;
  std::size_t error_from_ = 0;  ///< Its grouping.
};

}  // namespace

Problem with_counts(const Problem& problem, const Counts& counts) {
  Problem kept = problem;
  kept.types.clear();
  kept.modes.clear();
  std::vector<int> type_of(problem.types.size(), -1);
  std::vector<std::size_t> modes;
  for (std::size_t t = 0; t < problem.types.size(); ++t) {
    if (!problem.types[t].unlimited && counts[t] == 0) continue;
    type_of[t] = static_cast<int>(kept.types.size());
    kept.types.push_back(problem.types[t]);
    if (!problem.types[t].unlimited) kept.types.back().devices.resize(at(counts[t]));
  }
  for (std::size_t m = 0; m < problem.modes.size(); ++m) {
    const int type = type_of[at(problem.modes[m].type)];
    if (type < 0) continue;
    modes.push_back(m);
    kept.modes.push_back(problem.modes[m]);
    kept.modes.back().type = type;
  }
  for (std::size_t g = 0; g < problem.groups.size(); ++g) {
    auto& time = kept.groups[g].time;
    time.clear();
    for (const auto m : modes) time.push_back(problem.groups[g].time[m]);
  }
  kept.links.clear();
  for (std::size_t a = 0; a < problem.links.size(); ++a) {
    if (type_of[a] < 0) continue;
    auto& row = kept.links.emplace_back();
    for (std::size_t b = 0; b < problem.links[a].size(); ++b) {
      if (type_of[b] >= 0) row.push_back(problem.links[a][b]);
    }
  }
  return kept;
}

Result<Choice> choose(const Problem& problem, const std::vector<Counts>& groupings,
                      const Options& options) {
  return Chooser(problem, groupings, options).run();
}

}  // namespace penstock::planner
