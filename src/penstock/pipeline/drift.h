// DriftWatch: whether a stage takes the time that its plan foretold.
#pragma once

#include <chrono>
#include <deque>
#include <optional>

#include "penstock/pipeline/durations.h"
#include "penstock/pipeline/stats.h"

namespace penstock::pipeline {

/// Knows time by what it is told. A window ends with the first look a second or more after it
/// began, where it holds some frames; its median counts, so that single slow frames do not.
class DriftWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// `all`: what the stage's frames took since its start.
  void see(Clock::time_point now, const Durations& all);
  /// None before the first window has ended. \pre  predicted_ns > 0
  [[nodiscard]] std::optional<Drift> against(double predicted_ns) const;

 private:
  Clock::time_point begin_ = Clock::now();  // Of the window that has not ended,
  Durations before_;                        // and what was seen until then.
  std::deque<double> medians_;              // Of the last windows, in nanoseconds.
};

}  // namespace penstock::pipeline
