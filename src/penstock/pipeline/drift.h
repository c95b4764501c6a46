// DriftWatch: whether a stage takes the time that its plan foretold.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "penstock/pipeline/durations.h"
#include "penstock/pipeline/stats.h"

namespace penstock::pipeline {

/// How much of a call's time is a frame's, each of which tells of all of it. `calls`:
/// StageStats::calls; 0: there are none.
double share_of_frame(const std::vector<std::uint64_t>& calls);

/// A window ends with the first see() that is called a second or more after it began and that finds
/// frames in it. Of each window the median counts, so that single slow frames do not.
class DriftWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// `all`: what the stage's frames took since its start, each its whole call, in so many
  /// instances. `calls`: StageStats::calls.
  void see(Clock::time_point now, const Durations& all, const std::vector<std::uint64_t>& calls,
           std::size_t instances);
  /// Of the windows that have ended, the share in which the stage computed: the median; 0: none
  /// has.
  [[nodiscard]] double busy() const;
  /// None before the first window has ended. `busiest`: the busy() of the pipeline's busiest stage.
  /// Where that waits most of the time, caches are cold and CPUs asleep when a frame comes: nothing
  /// is beyond that noise.
  /// \pre  predicted_ns > 0
  [[nodiscard]] std::optional<Drift> against(double predicted_ns, double busiest) const;

 private:
  Clock::time_point begin_ = Clock::now();   // When the window began that has not ended.
  Durations before_;                         // What the stage's frames took before `begin_`.
  std::vector<std::uint64_t> calls_before_;  // In which calls.
  std::deque<double> medians_;               // Nanoseconds; of the last windows that have ended.
  std::deque<double> shares_;                // Of the same: as busy().
};

}  // namespace penstock::pipeline
