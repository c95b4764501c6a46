// From a graph, devices and costs to the planner's problem, and from its answer to stages.
#pragma once

#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/cost/analytic.h"
#include "penstock/device/device.h"
#include "penstock/graph/graph.h"
#include "penstock/planner/problem.h"

namespace penstock::cost {

struct GraphProblemOptions {
  Figures figures;
  /// Of each node on `measured_cpus` CPUs; empty: by `figures`. On more or fewer as `figures` say.
  std::vector<double> node_seconds;
  int measured_cpus = 1;
  std::string backend = "onnxruntime";  ///< Names the modes.
  double memory = planner::kInfinite;   ///< Bytes of each device, for weights and tensors.
  std::vector<std::pair<graph::NodeId, device::Device>> pins;
};

/// One group for each node, with the same index; times in seconds. Devices with the same number of
/// CPUs are one type; all share the host's memory, so that a transfer costs a hand-over and no
/// bytes. Frames in flight count in the memory where it is capped. Values that are no tensors
/// (sequences, maps) keep their nodes together.
/// \error kInvalidArgument  no node, no device, a device twice, a remote device (its link is not
/// known);
///        kNotFound  a pin's device is not among the devices
Result<planner::Problem> problem_of(const graph::Graph& graph,
                                    const std::vector<device::Device>& devices,
                                    const GraphProblemOptions& options);

}  // namespace penstock::cost
