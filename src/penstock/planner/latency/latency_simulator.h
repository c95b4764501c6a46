// LatencySimulator: the time of one frame for a plan under search, as fast as it can be told.
#pragma once

#include <optional>
#include <vector>

#include "penstock/planner/latency/latency_exact.h"
#include "penstock/planner/latency/latency_model.h"
#include "penstock/planner/problem/split.h"

namespace penstock::planner {

/// Where each cluster goes. A seat is one call on one device; each device has as many seats as the
/// options allow segments. Behind the seats come the unlimited types, on which groups stand alone.
struct LatencyPlan {
  std::vector<int> place;  ///< [cluster] A seat, or LatencySimulator::seats() + an unlimited type.
  std::vector<int> mode;   ///< [seat] Index into Problem::modes.
};

class LatencySimulator {
 public:
  LatencySimulator(const Problem& problem, const LatencyModel& model, int segments_per_device);

  [[nodiscard]] int seats() const { return static_cast<int>(device_of_.size()); }
  [[nodiscard]] int places() const { return seats() + static_cast<int>(core_types_.size()); }
  /// The modes of a seat's type.
  [[nodiscard]] const std::vector<int>& modes(int seat) const;

  /// The time of one frame, by the problem's own costs; kInfinite where the plan breaks a rule.
  double run(const LatencyPlan& plan);
  /// The plan that was run last, which must have been valid.
  [[nodiscard]] Split split() const;

  /// A plan made of the steps of another search; absent where devices run out.
  [[nodiscard]] std::optional<LatencyPlan> plan_of(const std::vector<LatencyStep>& steps) const;
  /// Absent where a stage is not one that the search makes.
  [[nodiscard]] std::optional<LatencyPlan> plan_of(const Split& split) const;

 private:
  bool seat_groups(const LatencyPlan& plan);
  bool order_units();
  double duration(int unit);
  [[nodiscard]] bool fits_with_frames();
  [[nodiscard]] int device(int unit) const;
  [[nodiscard]] int mode(int unit) const;
  [[nodiscard]] int type(int unit) const;
  [[nodiscard]] bool together(int unit, int other) const;

  const Problem& problem_;
  const LatencyModel& model_;
  std::vector<int> device_of_, type_of_;  // [seat]
  std::vector<int> core_types_;
  std::vector<int> core_mode_;           // [core type * groups + group] -1: none.
  std::vector<int> cluster_of_;          // [group]
  std::vector<double> transfer_;         // [(value * types + from) * types + to]
  std::vector<std::vector<int>> modes_;  // [type]
  int devices_ = 0, segments_;
  // Of the plan that is run. Units: the seats, then a unit for each group alone.
  std::vector<int> unit_of_;               // [group]
  std::vector<int> seat_mode_;             // [seat]
  std::vector<int> alone_mode_;            // [group]
  std::vector<int> first_, next_;          // Groups of each unit: [unit], [group].
  std::vector<int> missing_;               // [unit] Pairs of the order that still wait.
  std::vector<int> order_;                 // Units.
  std::vector<double> end_, free_, held_;  // [unit], [device], [device]
  std::vector<int> seen_;                  // [value], or [value * devices + device].
  int mark_ = 0;
};

}  // namespace penstock::planner
