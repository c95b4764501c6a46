// Of splits with equal periods the one with less latency, then with fewer devices, is kept.
#include "penstock/planner/throughput/incumbent.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "penstock/planner/bounds/model.h"

namespace penstock::planner {

Incumbent::Incumbent(const Problem& problem, const Options& options, const BoundsReport& report)
    : problem_(&problem), options_(&options), report_(&report) {}

bool Incumbent::offer(const Split& split) {
  const auto evaluation = evaluate(*problem_, split);
  if (!evaluation.violations.empty() || !allows(*options_, split)) return false;
  if (!keeps_cap(*options_, evaluation)) return false;
  std::size_t devices = 0;
  for (const auto& stage : split.stages) {
    if (stage.devices.empty()) return false;  // On a type without limit.
    devices += stage.devices.size();
  }
  const double period = evaluation.period;
  const bool equal = outcome_.split && std::abs(period - outcome_.cost) <= period * kSlack;
  const bool better = equal
                          ? std::tuple(evaluation.latency, devices) < std::tuple(latency_, devices_)
                          : period < outcome_.cost;
  if (outcome_.split && !better) return false;
  outcome_.split = split;
  outcome_.cost = equal ? std::min(period, outcome_.cost) : period;
  latency_ = evaluation.latency;
  devices_ = devices;
  outcome_.lower_bound = std::min(outcome_.lower_bound, outcome_.cost);
  if (*report_) (*report_)(outcome_.lower_bound, outcome_.cost);
  return true;
}

void Incumbent::raise(double lower_bound) {
  const double bound = std::min(lower_bound * (1 - kSlack), outcome_.cost);
  if (bound <= outcome_.lower_bound) return;
  outcome_.lower_bound = bound;
  if (*report_) (*report_)(outcome_.lower_bound, outcome_.cost);
}

void Incumbent::prove_infeasible() {
  outcome_.infeasible = true;
  outcome_.lower_bound = kInfinite;
}

bool Incumbent::proved() const {
  return outcome_.infeasible ||
         (outcome_.split && outcome_.lower_bound >= outcome_.cost * (1 - 2 * kPrecision));
}

}  // namespace penstock::planner
