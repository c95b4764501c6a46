// Budgets by the steady clock, and whether options allow a split and its latency.
#include "penstock/planner/search/search.h"

#include <algorithm>
#include <map>
#include <utility>

namespace penstock::planner {
namespace {

constexpr double kNoEnd = 1e9;  // Seconds: 30 years, and still far from the clock's range.

double seconds_between(Budget::Clock::time_point from, Budget::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

Budget::Clock::time_point end_of(Budget::Clock::time_point begin, double seconds) {
  if (!(seconds < kNoEnd)) return Budget::Clock::time_point::max();
  return begin + std::chrono::duration_cast<Budget::Clock::duration>(
                     std::chrono::duration<double>(std::max(0.0, seconds)));
}

}  // namespace

Budget::Budget(double seconds, std::function<bool()> interrupted)
    : end_(end_of(begin_, seconds)), interrupted_(std::move(interrupted)) {}

bool Budget::over() const {
  if (interrupted_ && interrupted_()) return true;
  return end_ != Clock::time_point::max() && Clock::now() >= end_;
}

double Budget::left() const {
  if (end_ == Clock::time_point::max()) return kInfinite;
  return std::max(0.0, seconds_between(Clock::now(), end_));
}

double Budget::elapsed() const {
  return seconds_between(begin_, Clock::now());
}

Budget Budget::part(double seconds) const {
  Budget part(seconds, interrupted_);
  part.end_ = std::min(part.end_, end_);
  return part;
}

bool allows(const Options& options, const Split& split) {
  std::map<int, int> segments;  // Of each device.
  for (const auto& stage : split.stages) {
    if (stage.devices.size() > 1 && !options.replicas) return false;
    for (const int device : stage.devices) {
      if (++segments[device] > options.segments_per_device) return false;
    }
  }
  return true;
}

bool keeps_cap(const Options& options, const Evaluation& evaluation) {
  constexpr double kRounding = 1e-11;
  return evaluation.latency <= options.latency_cap * (1 + kRounding);
}

double cost_of(const Evaluation& evaluation, Goal goal) {
  return goal == Goal::kLatency ? evaluation.latency : evaluation.period;
}

}  // namespace penstock::planner
