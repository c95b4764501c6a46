// How a person writes a budget, how much of one is spent, and what a build needs in any case.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "penstock/base/result.h"

namespace penstock::tune {

/// In seconds: "60s", "90", "2m", "1.5h". \error kInvalidArgument
Result<double> parse_budget(const std::string& text);

/// Seconds that count from a moment on, by the steady clock or by one that a test makes up.
class Budget {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = std::function<Clock::time_point()>;
  Budget(double seconds, Clock::time_point begin, Now now = &Clock::now)
      : seconds_(seconds), begin_(begin), now_(std::move(now)) {}

  [[nodiscard]] double seconds() const { return seconds_; }
  /// Since the beginning; more than seconds() where it is overdrawn.
  [[nodiscard]] double spent() const {
    return std::chrono::duration<double>(now_() - begin_).count();
  }
  /// The moment at which so many seconds are spent.
  [[nodiscard]] Clock::time_point at(double seconds) const {
    return begin_ +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

 private:
  double seconds_;
  Clock::time_point begin_;
  Now now_;
};

/// What is known once the simple ways were tried.
struct Needs {
  double spent_seconds = 0;
  double trial_seconds = 0;        ///< Of compiling and timing a whole network; 0: all are known.
  std::size_t whole_networks = 0;  ///< Backends, each on one device and on all CPUs.
  std::size_t compared = 0;        ///< Engines that start once more for the last comparison,
  double comparison_seconds = 0;   ///< and how long that runs then.
};

/// About the seconds that a build takes in any case: each whole network is tried, then run, and
/// each simple way starts anew beside the plan.
double least_seconds(const Needs& needs);

}  // namespace penstock::tune
