// Pareto front: plans of which none is better in everything.
#pragma once

#include <vector>

#include "penstock/planner/answer.h"

namespace penstock::planner {

struct ParetoPoint {
  Split split;
  double period = 0;
  double latency = 0;
  int devices = 0;    ///< Used.
  double memory = 0;  ///< Bytes on the fullest device.
  /// No plan that uses no more devices of each type, and has no more latency and memory, has a
  /// shorter period.
  double lower_bound = 0;
  bool proved = false;  ///< The two meet within kProofGap.
};

/// Plans found within `seconds`, none of which has another in the list that is at least as good in
/// period, latency, devices and memory; period ascending. There may be others: the list is what was
/// found, and each bound speaks of its own plan.
///
/// For fewer devices of each type in turn: the least period, the least latency, the least memory,
/// then the least period below caps on latency and memory that descend, at first in large steps.
/// Small problems are searched to the end, then the list misses nothing. `options.user_split`
/// takes part. Without a limit on time the steps are the same, each solved to its end. No plan has
/// a period below `lower_bound`.
std::vector<ParetoPoint> pareto_front(const Problem& problem, const Options& options,
                                      double seconds, double lower_bound = 0);

}  // namespace penstock::planner
