// Order of the search: bounds, one device, linear orders, then Frontier runs and annealing in turn.
#include "penstock/planner/throughput/contiguous.h"

#include <algorithm>
#include <optional>
#include <random>

#include "penstock/planner/latency/latency.h"
#include "penstock/planner/problem/index.h"
#include "penstock/planner/throughput/devices.h"
#include "penstock/planner/throughput/frontier.h"
#include "penstock/planner/throughput/incumbent.h"
#include "penstock/planner/throughput/probe.h"
#include "penstock/planner/throughput/rebuild.h"
#include "penstock/planner/throughput/sides.h"
#include "penstock/planner/throughput/slots.h"

namespace penstock::planner {
namespace {

constexpr int kOrders = 31;
constexpr double kOrderSeconds = 0.25;  // For orders after the first few.
constexpr int kFirstOrders = 4;
constexpr std::int64_t kManyMultisets = 2000;
constexpr int kSequences = 8;
constexpr double kBoundShare = 0.4;   // Of the time, for a bound with transfers.
constexpr double kCappedShare = 0.3;  // Of the time, for orders where latency counts.
constexpr double kLongTime = 1e30;    // Stands for a group that a type does not support.

/// Everything on one device: so that there is a plan at once.
void try_one_device(const Model& model, Incumbent& incumbent) {
  const auto& instance = model.instance;
  double best = kInfinite;
  int mode = -1;
  for (int m = 0; m < instance.modes; ++m) {
    if (instance.type_count[at(instance.mode_type[at(m)])] == 0) continue;
    double sum = instance.mode_launch[at(m)];
    for (int g = 0; g < instance.groups; ++g) sum += instance.time_of(g, m);
    if (sum < best) {
      best = sum;
      mode = m;
    }
  }
  if (mode < 0) return;
  Stage stage{given_order(instance), mode, DeviceDealer(instance).deal(mode, 1)};
  incumbent.offer(expand(instance, Split{{std::move(stage)}}));
}

/// The types of all devices, the fastest first; `number` 1: the slowest first; then at random.
std::vector<int> device_sequence(const Instance& instance, int number) {
  std::vector<double> time(at(instance.types), kInfinite);
  for (int m = 0; m < instance.modes; ++m) {
    double sum = 0;
    for (int g = 0; g < instance.groups; ++g) sum += std::min(instance.time_of(g, m), kLongTime);
    auto& least = time[at(instance.mode_type[at(m)])];
    least = std::min(least, sum);
  }
  std::vector<int> sequence;
  for (int t = 0; t < instance.types; ++t) {
    sequence.insert(sequence.end(), at(instance.type_count[at(t)]), t);
  }
  std::ranges::stable_sort(sequence, {}, [&](int t) { return time[at(t)]; });
  if (number == 1) std::ranges::reverse(sequence);
  if (number > 1) {
    std::mt19937 random(static_cast<unsigned>(number));
    std::ranges::shuffle(sequence, random);
  }
  return sequence;
}

/// Where the multisets of devices are many: some orders of the devices first.
void try_sequences(const Model& model, const Line& line, const Budget& budget,
                   Incumbent& incumbent) {
  if (model.instance.types == 1 || Probe(line).multisets() < kManyMultisets) return;
  for (int number = 0; number < kSequences && !budget.over(); ++number) {
    const auto sequence = device_sequence(model.instance, number);
    const auto found =
        best_on_line(line, sequence, incumbent.lower_bound(), incumbent.cost(), budget);
    if (found.stages.empty()) continue;
    incumbent.offer(expand(model.instance, split_of(line, found.stages)));
  }
}

void try_orders(const Model& model, bool exact, const Budget& budget, Incumbent& incumbent) {
  const auto& instance = model.instance;
  const Budget short_budget = budget.part(kOrderSeconds);
  const bool chain = is_chain(instance);
  for (int number = 0; number < (chain ? 1 : kOrders); ++number) {
    const auto& own = number < kFirstOrders ? budget : short_budget;
    if (own.over() || incumbent.proved()) return;
    const Line line(model, numbered_order(instance, number));
    try_sequences(model, line, own, incumbent);
    const auto found = best_on_line(line, incumbent.lower_bound(), incumbent.cost(), own);
    if (!found.stages.empty()) incumbent.offer(expand(instance, split_of(line, found.stages)));
    if (!chain || !exact || !found.proved || model.latency_cap < kInfinite) continue;
    if (incumbent.cost() == kInfinite) return incumbent.prove_infeasible();
    incumbent.raise(incumbent.cost() * (1 - kPrecision));
  }
}

/// Which period to ask for next. At first one that just beats the best plan: if there is none, that
/// is the proof. After a plan was found, ever larger strides down; after a refutation, half the
/// gap. After a search that took too long only lower periods are asked for, whose refutation is
/// cheaper, until they are near what is refuted; then there is more patience.
class Bracket {
 public:
  Bracket(double lower, double upper) : lower_(lower), upper_(upper), hard_(upper) {}

  [[nodiscard]] bool open() const { return lower_ < upper_ * (1 - kPrecision); }
  [[nodiscard]] double period() const {
    if (part_ == 1 || upper_ == kInfinite) return upper_ * (1 - kPrecision);
    return lower_ + part_ * (std::min(hard_, upper_) - lower_);
  }
  [[nodiscard]] std::int64_t most_steps() const { return part_ == 1 ? patience_ : patience_ / 2; }

  void found(double period) {
    if (upper_ < kInfinite) {
      stride_ =
          std::max({kStretch * (upper_ - period), kStretch / 2 * stride_, (period - lower_) / 8});
    }
    upper_ = hard_ = period;
    part_ = std::max(0.5, 1 - stride_ / (upper_ - lower_));
    look_closely();
  }
  void refuted(double period) {
    lower_ = std::max(lower_, period);
    stride_ = 0;
    part_ = 0.5;
    if (hard_ - lower_ < kLeastPart * (upper_ - lower_)) more_patience();
    look_closely();
  }
  /// Another search found a plan, or a bound.
  void improved(double period) { upper_ = period; }
  void raised(double period) {
    lower_ = std::max(lower_, period);
    if (hard_ <= lower_) hard_ = upper_;
    patience_ = std::max(patience_, kSteps);
  }
  void stopped() {
    if (upper_ == kInfinite) return more_patience();
    hard_ = period();
    part_ = 0.5;
    if (hard_ - lower_ < kLeastPart * (upper_ - lower_)) more_patience();
  }

 private:
  void look_closely() {
    if (upper_ - lower_ < kSmallGap * upper_) part_ = 1;
  }
  void more_patience() {
    hard_ = upper_;
    part_ = 1;
    patience_ *= 3;
  }

  static constexpr double kStretch = 4;
  static constexpr double kSmallGap = 1e-4;
  static constexpr double kLeastPart = 1.0 / 8;
  static constexpr std::int64_t kFirstSteps = 1'000'000;  // About 0.1 s.
  static constexpr std::int64_t kSteps = 3'000'000;

  double lower_, upper_;
  double hard_;      // The least period whose search took too long.
  double part_ = 1;  // Of the gap below it, from below.
  double stride_ = 0;
  std::int64_t patience_ = kFirstSteps;
};

/// What the frontier refutes without a search.
void raise_at_once(Frontier& frontier, const Budget& budget, Incumbent& incumbent) {
  constexpr int kSteps = 12;
  constexpr double kPart = 1.0 / 3;  // High periods take long and are seldom refuted.
  double lower = incumbent.lower_bound(), upper = incumbent.cost();
  for (int i = 0; i < kSteps && upper < kInfinite && !budget.over(); ++i) {
    const double middle = lower + kPart * (upper - lower);
    (frontier.refutes(middle, budget) ? lower : upper) = middle;
  }
  incumbent.raise(lower);
}

/// Looks for better plans while the frontier is stuck: a part of its time, less where in vain.
class Improver {
 public:
  Improver(const Problem& problem, const Options& options, const Model& model)
      : model_(model),
        rebuilder_(model),
        judged_(options.latency_cap < kInfinite || problem.frames_in_flight),
        share_(options.replicas ? 0 : kFirstShare) {}

  void run(double seconds, const Budget& budget, Incumbent& incumbent) {
    if (share_ == 0) return;
    const auto part = budget.part(share_ * seconds);
    const double before = incumbent.cost();
    for (; !part.over(); ++round_) {
      const LevelOptions options{round_ % 4 == 3, kLeastEffort << std::min(round_ / 2, 5)};
      const double begin = part.elapsed();
      anneal_slots(model_.instance, incumbent.split(), 1, judged_, options, random_, part,
                   [&](const Split& split) { return incumbent.offer(split); });
      const double annealed = incumbent.cost();
      rebuild(part.part(rebuild_share_ * (part.elapsed() - begin)), incumbent);
      const bool rebuilt = incumbent.cost() < annealed;
      rebuild_share_ =
          rebuilt ? kMostRebuilding : std::max(rebuild_share_ / 2, kMostRebuilding / 16);
    }
    share_ = incumbent.cost() < before ? std::min(2 * share_, kMostShare) : share_ / 2;
    share_ = std::max(share_, kLeastShare);
  }

 private:
  void rebuild(const Budget& budget, Incumbent& incumbent) {
    while (incumbent.split() && !budget.over()) {
      const double period = incumbent.cost() * (1 - kPrecision);
      const auto found = rebuilder_.run(*incumbent.split(), period, random_, budget);
      if (found) incumbent.offer(*found);
    }
  }

  static constexpr double kFirstShare = 0.5, kLeastShare = 0.25, kMostShare = 2;
  static constexpr double kMostRebuilding = 2;
  static constexpr std::int64_t kLeastEffort = 100;  // Moves for each group in a round.

  const Model& model_;
  Rebuilder rebuilder_;
  bool judged_;  // What may be kept only evaluate() knows.
  double share_;
  double rebuild_share_ = 1;  // Of the time that annealing took.
  int round_ = 0;
  Random random_{1};
};

/// Moves the bounds towards each other. `is_bound`: what the model refutes, the problem does too.
void close_gap(const Model& model, bool is_bound, Improver& improver, const Budget& budget,
               Incumbent& incumbent) {
  if (incumbent.proved()) return;
  Frontier frontier(model);
  if (is_bound) raise_at_once(frontier, budget, incumbent);
  bool stuck = false;
  if (!frontier.possible()) return;
  Bracket bracket(incumbent.lower_bound(), incumbent.cost());
  while (bracket.open() && !incumbent.proved() && !budget.over()) {
    const double period = bracket.period(), begin = budget.elapsed();
    const auto result = frontier.run(period, bracket.most_steps(), budget);
    switch (result.reached) {
      case Reached::kFound:
        incumbent.offer(expand(model.instance, result.split));
        bracket.found(std::min(period, result.period));
        break;
      case Reached::kNone:
        if (is_bound && period == kInfinite) incumbent.prove_infeasible();
        if (is_bound) incumbent.raise(period);
        bracket.refuted(period);
        break;
      case Reached::kStopped:
        bracket.stopped();
        if (is_bound && !stuck) {
          frontier.use_transfers();
          raise_at_once(frontier, budget.part(kBoundShare * budget.left()), incumbent);
          bracket.raised(incumbent.lower_bound());
        }
        stuck = true;
        improver.run(budget.elapsed() - begin, budget, incumbent);
        bracket.improved(incumbent.cost());
        break;
    }
  }
}

/// The search without the cap on latency is quicker: its bound holds with the cap too, and its
/// split is the best where it keeps the cap. False: there is nothing left to search.
bool try_without_cap(const Problem& problem, const Options& options, const Budget& budget,
                     Incumbent& incumbent) {
  constexpr double kShare = 0.3;
  auto free = options;
  free.latency_cap = kInfinite;
  free.user_split.reset();
  const auto found = search_contiguous(problem, free, budget.part(kShare * budget.left()));
  if (found.infeasible) incumbent.prove_infeasible();
  if (found.infeasible) return false;
  incumbent.raise(found.lower_bound);
  if (found.split) incumbent.offer(*found.split);
  return !incumbent.proved();
}

/// Where the cap is hardly above the least latency, only a search for that finds a plan, or shows
/// that there is none.
void try_least_latency(const Problem& problem, const Options& options, const Budget& budget,
                       Incumbent& incumbent) {
  constexpr double kShare = 0.5;
  if (options.latency_cap == kInfinite || incumbent.split()) return;
  const auto found = search_latency(problem, options, budget.part(kShare * budget.left()));
  if (found.infeasible) return incumbent.prove_infeasible();
  if (found.split) incumbent.offer(*found.split);
}

}  // namespace

Outcome search_contiguous(const Problem& problem, const Options& given, const Budget& budget,
                          const BoundsReport& report) {
  auto options = given;
  options.segments_per_device = 1;
  Incumbent incumbent(problem, options, report);
  auto low = make_side(problem, Partner::kLowest);
  auto high = make_side(problem, Partner::kHighest);
  if (!low || !high) {
    // A valid problem without an instance has groups that must stay together and fit nowhere.
    if (validate(problem)) incumbent.prove_infeasible();
    return incumbent.take();
  }
  const bool exact = is_exact(problem, *low, *high);
  const auto below = make_model(problem, options, *std::move(low));
  if (options.user_split) incumbent.offer(*options.user_split);
  const double bound = period_bound(below.instance, below.prices, options.replicas);
  if (bound == kInfinite) {
    incumbent.prove_infeasible();
    return incumbent.take();
  }
  incumbent.raise(bound);
  try_one_device(below, incumbent);
  try_least_latency(problem, options, budget, incumbent);
  if (incumbent.proved()) return incumbent.take();
  if (options.latency_cap < kInfinite && !try_without_cap(problem, options, budget, incumbent)) {
    return incumbent.take();
  }
  if (!exact) {
    const auto above = make_model(problem, options, *std::move(high));
    try_orders(above, false, budget, incumbent);
    Improver improver(problem, options, above);
    close_gap(above, false, improver, budget.part(budget.left() / 2), incumbent);
  }
  const bool capped = options.latency_cap < kInfinite;
  try_orders(below, exact, capped ? budget.part(kCappedShare * budget.left()) : budget, incumbent);
  Improver improver(problem, options, below);
  close_gap(below, true, improver, budget, incumbent);
  return incumbent.take();
}

}  // namespace penstock::planner
