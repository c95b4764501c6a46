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
};

/// Plans found within `seconds` of which no other is at least as good in period, latency, devices
/// and memory; period ascending. Made by solving for fewer devices of each type and, for each
/// number, for descending caps on latency; `options.user_split` takes part. Without a limit on time
/// the steps are the same, each solved to its end.
std::vector<ParetoPoint> pareto_front(const Problem& problem, const Options& options,
                                      double seconds);

}  // namespace penstock::planner
