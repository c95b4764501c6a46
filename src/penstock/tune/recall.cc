// Compares the rounds of then and now, of the plan by itself and beside each simple way.
#include "penstock/tune/recall.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "penstock/base/quantile.h"
#include "penstock/tune/simple.h"

namespace penstock::tune {
namespace {

constexpr double kMostOff = 1.10;

constexpr std::size_t kFewRounds = 5;  ///< Fewer have none to spare.

/// What all rounds lie in, or all but the least and the greatest.
struct Interval {
  double low = 0, high = 0;
};

std::optional<Interval> interval_of(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  const auto [low, high] = std::ranges::minmax(values);
  return Interval{low, high};
}

Interval middle_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t spared = values.size() < kFewRounds ? 0 : 1;
  return {values[spared], values[values.size() - 1 - spared]};
}

/// What the way is worth, over what the plan is in the same round.
std::vector<double> beside_plan(const WayReport& way, const WayReport& plan) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(way.rounds.size(), plan.rounds.size()); ++i) {
    if (way.rounds[i] > 0 && plan.rounds[i] > 0) ratios.push_back(way.rounds[i] / plan.rounds[i]);
  }
  return ratios;
}

/// By which factor, at least, what lies in `now` is greater than what lay in `then`; below 1: less;
/// 1: they meet.
double apart(const Interval& then, const Interval& now) {
  if (now.low > then.high) return now.low / then.high;
  return now.high < then.low ? now.high / then.low : 1;
}

/// Of one simple way beside the plan, in two comparisons.
struct Beside {
  std::string name;
  std::vector<double> then, now;  ///< By round; of then none: it did not run.
};

std::vector<Beside> simple_ways(const Comparison& then, const Comparison& now) {
  std::vector<Beside> all;
  for (const auto& way : now.simple) {
    Beside one{way.name, {}, beside_plan(way, now.plan)};
    if (one.now.empty()) continue;
    const auto before = std::ranges::find(then.simple, way.name, &WayReport::name);
    if (before != then.simple.end()) one.then = beside_plan(*before, then.plan);
    all.push_back(std::move(one));
  }
  return all;
}

/// "12 % faster than", "3.5 times as fast as"
std::string times(double factor) {
  if (factor < 1) return concat(std::lround((1 - factor) * 100), " % slower than");
  if (factor < 2) return concat(std::lround((factor - 1) * 100), " % faster than");
  return concat(std::round(factor * 10) / 10, " times as fast as");
}

/// The way that passes the plan by most, in every round, and did not when it was chosen; or did,
/// and that is not settled.
const Beside* passing(const std::vector<Beside>& simple, const std::vector<Way>& ways,
                      bool settled) {
  const Beside* most = nullptr;
  for (const auto& one : simple) {
    if (!may_be_chosen(one.name, ways)) continue;
    const auto then = interval_of(one.then);
    const bool is_open = !settled && then && median(one.then) > kAhead;
    const double before = then && !is_open ? std::max(1.0, then->high) : 1;
    if (interval_of(one.now)->low <= kAhead * before) continue;
    if (most == nullptr || median(one.now) > median(most->now)) most = &one;
  }
  return most;
}

/// By which factor the plan is faster beside most of the simple ways, at least.
double beside_most(const std::vector<Beside>& simple, double otherwise) {
  std::vector<double> factors;
  for (const auto& one : simple) {
    if (!one.then.empty()) factors.push_back(1 / apart(middle_of(one.then), middle_of(one.now)));
  }
  return factors.empty() ? otherwise : median(factors);
}

}  // namespace

Stale stale(const Comparison& then, const Comparison& now, const std::vector<Way>& ways,
            bool settled) {
  const auto simple = simple_ways(then, now);
  if (const auto* const way = passing(simple, ways, settled)) {
    return {concat("the simple way '", way->name, "' is ", times(median(way->now)),
                   " the plan chosen earlier"),
            way->name};
  }
  const auto plan_then = interval_of(then.plan.rounds), plan_now = interval_of(now.plan.rounds);
  if (!plan_then || !plan_now) return {};
  // By itself too: it is not the simple ways alone that have changed.
  const double own = apart(*plan_then, *plan_now), beside = beside_most(simple, own);
  const bool faster = std::min(own, beside) > kMostOff;
  if (!faster && std::max(own, beside) >= 1 / kMostOff) return {};
  const double least = faster ? std::min(own, beside) : std::max(own, beside);
  return {concat("the plan chosen earlier is at least ", times(least),
                 " when it was chosen, by itself and beside the simple ways"),
          {}};
}

}  // namespace penstock::tune
