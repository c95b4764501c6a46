// What every search of the planner is given and gives back.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "penstock/planner/problem/split.h"

namespace penstock::planner {

/// When a search must end. Cheap to ask; a search asks at least every few milliseconds.
class Budget {
 public:
  using Clock = std::chrono::steady_clock;
  Budget() = default;  ///< Without end.
  Budget(double seconds, std::function<bool()> interrupted);

  [[nodiscard]] bool over() const;
  [[nodiscard]] double left() const;                ///< Seconds; infinite without end.
  [[nodiscard]] double elapsed() const;             ///< Seconds since it was made.
  [[nodiscard]] Budget part(double seconds) const;  ///< Ends then or with this one.

 private:
  Clock::time_point begin_ = Clock::now();
  Clock::time_point end_ = Clock::time_point::max();
  std::function<bool()> interrupted_;
};

enum class Goal {
  kThroughput,  ///< The least period; of equal ones met, the least latency.
  kLatency,     ///< The least time of one frame.
};

/// Told whenever a bound moves: what no split can cost less than, infinite once it is proved that
/// there is none, and the cost of the best split so far, infinite while there is none. Called by
/// the thread that searches.
using BoundsReport = std::function<void(double lower_bound, double cost)>;

struct Options {
  Goal goal = Goal::kThroughput;
  bool replicas = false;        ///< Stages may run on several devices of one type.
  int segments_per_device = 1;  ///< More than 1: virtual stages.
  double latency_cap = kInfinite;
  double seconds = kInfinite;         ///< The deadline.
  std::function<bool()> interrupted;  ///< Asked often; true ends the search with what is known.
  std::optional<Split> user_split;    ///< Never answered with a worse one.
  /// Told by solve() while it searches: lower bounds never fall, costs never rise, and the last are
  /// those of the answer.
  BoundsReport report;
};

/// Whether the options let a split have its replicas and its segments of a device.
bool allows(const Options& options, const Split& split);
/// Whether the latency is within the cap, but for the rounding of sums in another order.
bool keeps_cap(const Options& options, const Evaluation& evaluation);

/// The cost of an evaluation under the goal.
double cost_of(const Evaluation& evaluation, Goal goal);

/// What a search knows when it ends. Bounds hold at any moment, whatever ended it.
struct Outcome {
  std::optional<Split> split;  ///< Of the problem (not of an instance); absent: none found.
  double cost = kInfinite;     ///< Of the split: the period, or the latency where that is the goal.
  double lower_bound = 0;      ///< No valid split costs less.
  bool infeasible = false;     ///< Proved that no valid split exists.
};

}  // namespace penstock::planner
