#include "penstock/planner/contiguous.h"

#include <algorithm>
#include <optional>

#include "penstock/planner/contract.h"
#include "penstock/planner/frontier.h"
#include "penstock/planner/incumbent.h"
#include "penstock/planner/index.h"
#include "penstock/planner/probe.h"

namespace penstock::planner {
namespace {

constexpr int kOrders = 31;
constexpr double kOrderSeconds = 0.25;  // For orders after the first few.
constexpr int kFirstOrders = 4;
constexpr std::int64_t kFirstSteps = 3'000'000;  // About 0.3 s.
constexpr double kLeastPart = 1.0 / 64;          // Of the gap, that a refutation should close.

/// The problem as the searches see it, from below or from above.
std::optional<Model> make_model(const Problem& problem, const Options& options, Partner partner) {
  auto instance = make_instance(problem, partner);
  if (!instance) return std::nullopt;
  Model model;
  model.instance = *std::move(instance);
  int devices = 0;
  for (int t = 0; t < model.instance.types; ++t) {
    if (problem.types[at(t)].unlimited) model.instance.type_count[at(t)] = 0;
    devices += model.instance.type_count[at(t)];
  }
  model.replicas = options.replicas;
  model.latency_cap = options.latency_cap;
  model.holds_transfers = problem.frames_in_flight;
  for (int v = 0; v < model.instance.values && problem.frames_in_flight; ++v) {
    // A value that crosses goes at least one stage on, if it goes forward; at most through all.
    const int producer = model.instance.producer[at(v)];
    const auto behind = model.instance.after[producer];
    const bool forward = std::ranges::any_of(
        model.instance.pins[v], [&](int pin) { return std::ranges::binary_search(behind, pin); });
    const double least = forward && model.instance.pins[v].size() == 2 ? 2 : 1;
    model.instance.bytes[at(v)] *= partner == Partner::kLowest ? least : devices;
  }
  if (options.latency_cap == kInfinite && !problem.frames_in_flight) {
    model.instance = contract(model.instance);
  }
  model.prices = make_prices(model.instance);
  return model;
}

/// Whether both models say the same.
bool is_exact(const Problem& problem, const Model& low, const Model& high) {
  return !problem.frames_in_flight && low.instance.receive == high.instance.receive &&
         low.instance.send == high.instance.send;
}

/// Whether there is only one linear order.
bool is_chain(const Instance& instance) {
  for (int g = 0; g + 1 < instance.groups; ++g) {
    if (!std::ranges::binary_search(instance.after[g], g + 1)) return false;
  }
  return true;
}

void try_orders(const Model& model, bool exact, const Budget& budget, Incumbent& incumbent) {
  const auto& instance = model.instance;
  const Budget short_budget = budget.part(kOrderSeconds);
  const bool chain = is_chain(instance);
  for (int number = 0; number < (chain ? 1 : kOrders); ++number) {
    const auto& own = number < kFirstOrders ? budget : short_budget;
    if (own.over() || incumbent.proved()) return;
    const Line line(model, numbered_order(instance, number));
    const auto found = best_on_line(line, incumbent.lower_bound(), incumbent.cost(), own);
    if (!found.stages.empty()) incumbent.offer(expand(instance, split_of(line, found.stages)));
    if (!chain || !exact || !found.proved || model.latency_cap < kInfinite) continue;
    if (incumbent.cost() == kInfinite) return incumbent.prove_infeasible();
    incumbent.raise(incumbent.cost() * (1 - kPrecision));
  }
}

/// Moves the bounds of `model` towards each other. The period asked for is at first one that beats
/// the best plan; where that takes too long, a lower one, whose refutation is cheaper and still
/// raises the bound; then again with more patience. `is_bound`: what the model refutes, the problem
/// does too.
void close_gap(const Model& model, bool is_bound, const Budget& budget, Incumbent& incumbent) {
  const Frontier frontier(model);
  if (!frontier.possible()) return;
  double lower = incumbent.lower_bound(), upper = incumbent.cost();
  double part = 1;
  auto patience = kFirstSteps;
  while (lower < upper * (1 - kPrecision) && !incumbent.proved() && !budget.over()) {
    const bool whole = part == 1 || upper == kInfinite;
    const double period = whole ? upper * (1 - kPrecision) : lower + part * (upper - lower);
    const auto result = frontier.run(period, whole ? patience : patience / 4, budget);
    switch (result.answer) {
      case Answer::kFound:
        upper = std::min(period, result.period);
        incumbent.offer(expand(model.instance, result.split));
        break;
      case Answer::kNone:
        if (is_bound && period == kInfinite) incumbent.prove_infeasible();
        if (is_bound) incumbent.raise(period);
        lower = period;
        break;
      case Answer::kStopped:
        part = upper == kInfinite ? 0 : part / 2;
        if (part < kLeastPart) {
          part = 1;
          patience *= 4;
        }
        break;
    }
  }
}

}  // namespace

Outcome search_contiguous(const Problem& problem, const Options& options, const Budget& budget,
                          const BoundsReport& report) {
  Incumbent incumbent(problem, options, report);
  const auto low = make_model(problem, options, Partner::kLowest);
  const auto high = make_model(problem, options, Partner::kHighest);
  if (!low || !high) {
    // A valid problem without an instance has groups that must stay together and fit nowhere.
    if (validate(problem)) incumbent.prove_infeasible();
    return incumbent.take();
  }
  const bool exact = is_exact(problem, *low, *high);
  if (options.user_split) incumbent.offer(*options.user_split);
  const double bound = period_bound(low->instance, low->prices, options.replicas);
  if (bound == kInfinite) {
    incumbent.prove_infeasible();
    return incumbent.take();
  }
  incumbent.raise(bound);
  try_orders(*high, exact, budget, incumbent);
  if (!exact) {
    try_orders(*low, false, budget, incumbent);
    const double half = budget.left() / 2;
    close_gap(*high, false, budget.part(half), incumbent);
  }
  close_gap(*low, true, budget, incumbent);
  return incumbent.take();
}

}  // namespace penstock::planner
