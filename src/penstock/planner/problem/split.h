// Split: an answer of the planner, and the independent judge of it.
#pragma once

#include <string>
#include <vector>

#include "penstock/planner/problem/problem.h"

namespace penstock::planner {

/// Groups that run together, as one call for each frame.
struct Stage {
  std::vector<int> groups;   ///< Ascending.
  int mode = 0;              ///< Index into Problem::modes.
  std::vector<int> devices;  ///< Indices of devices, counted through all types in order: one for
                             ///< each replica. Empty on an unlimited type.
  bool operator==(const Stage&) const = default;
};

/// All groups in stages, which stand in an order that respects Problem::order. A pipeline is
/// contiguous when no device is in two stages.
struct Split {
  std::vector<Stage> stages;
  bool operator==(const Split&) const = default;
};

/// What one device does for each frame.
struct DeviceLoad {
  double compute = 0, in = 0,
         out = 0;     ///< For one frame in r of it, where the stage has r replicas.
  double load = 0;    ///< The three combined by the type's overlap.
  double memory = 0;  ///< Bytes.
};

struct Evaluation {
  double period = 0;                ///< The largest load: time between frames of a full pipeline.
  double latency = 0;               ///< Of one frame through the idle pipeline: see evaluate().
  std::vector<DeviceLoad> devices;  ///< By index, through all types in order.
  /// Every rule broken: a group in no stage or in two, stages out of order (a cyclic quotient), an
  /// unsupported group, memory over a cap, a wrong or repeated device, colocated groups apart, a
  /// stage with replicas that shares a device, more than one group in a stage of an unlimited type.
  std::vector<std::string> violations;
};

/// Recomputes everything about `split` from the problem alone; shares no code with the searches.
/// Latency: each stage starts when all stages it reads from (by `values` and `order`, forward) and
/// the earlier stages on its device have ended, and lasts its own P + I + O whatever the overlap,
/// where its I and O count the values that cross to other devices; what an earlier stage of its
/// device received is there already. Replicas do not shorten it. Expects a problem that validate()
/// accepts.
Evaluation evaluate(const Problem& problem, const Split& split);

}  // namespace penstock::planner
