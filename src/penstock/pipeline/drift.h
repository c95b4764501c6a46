// DriftWatch: whether a stage takes the time that its plan foretold.
#pragma once

#include <chrono>
#include <deque>
#include <optional>

#include "penstock/pipeline/durations.h"
#include "penstock/pipeline/stats.h"

namespace penstock::pipeline {

/// A window ends with the first see() that is called a second or more after it began and that finds
/// frames in it. Of each window the median counts, so that single slow frames do not.
class DriftWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// `all`: what the stage's frames took since its start.
  void see(Clock::time_point now, const Durations& all);
  /// None before the first window has ended. \pre  predicted_ns > 0
  [[nodiscard]] std::optional<Drift> against(double predicted_ns) const;

 private:
  Clock::time_point begin_ = Clock::now();  // When the window began that has not ended.
  Durations before_;                        // What the stage's frames took before `begin_`.
  std::deque<double> medians_;              // Nanoseconds; of the last windows that have ended.
};

}  // namespace penstock::pipeline
