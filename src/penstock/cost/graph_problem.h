// From a graph, devices and costs to the planner's problem.
#pragma once

#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/cost/analytic.h"
#include "penstock/device/device.h"
#include "penstock/graph/graph.h"
#include "penstock/planner/problem/problem.h"

namespace penstock::cost {

/// What the nodes of a graph take on a device.
struct NodeCosts {
  Figures figures;
  /// Of each node on `measured_cpus` CPUs; empty: by `figures`. On more or fewer as `figures` say.
  std::vector<double> node_seconds;
  int measured_cpus = 1;
};

struct GraphProblemOptions : NodeCosts {
  std::string backend = "onnxruntime";  ///< Names the modes.
  double memory = planner::kInfinite;   ///< Bytes of each device, for weights and tensors.
  std::vector<std::pair<graph::NodeId, device::Device>> pins;
  std::vector<std::vector<graph::NodeId>> together;  ///< Each set within one stage.
  /// Of each device of this machine: what a node's seconds there are multiplied by, so that CPUs of
  /// unlike kinds are told apart; empty: 1 each.
  std::vector<double> paces;
};

/// Devices that compute alike, and are reached alike.
struct DeviceClass {
  std::string name;                     ///< For people: "CPU".
  std::vector<device::Device> devices;  ///< Of one number of CPUs.
  NodeCosts costs;
  double pace = 1;                     ///< What the costs are multiplied by.
  double share = 1;                    ///< Of its CPUs' time, which it may take.
  double memory = planner::kInfinite;  ///< Bytes of each device.
  planner::Overlap overlap = planner::Overlap::kSerial;
};

/// Devices of several machines.
struct Site {
  std::vector<DeviceClass> classes;
  /// [from][to], one row and column for each class, and the last of each for the caller: whoever
  /// sends the network's inputs and gets its outputs. Between devices of a class: of two machines.
  std::vector<std::vector<planner::Link>> links;
};

/// Devices of one class with memory of their own, and the copies from the host's and back.
struct Beside {
  DeviceClass devices;
  planner::Link there, back;
};

/// The CPUs of this machine, in classes as problem_of() makes them, and devices beside them. What
/// passes between two of these goes through the host's memory. \error as problem_of()
Result<Site> site_beside(const std::vector<device::Device>& cpus,
                         const GraphProblemOptions& options, const std::vector<Beside>& beside);

/// The devices that stand for the caller in a problem of a Site: what it sends, and what it gets.
inline constexpr const char* kCallerSends = "caller (inputs)";
inline constexpr const char* kCallerGets = "caller (outputs)";

/// One group for each node, with the same index; times in seconds. Devices with the same number of
/// CPUs and one pace are one type; all share the host's memory, so that a transfer costs a
/// hand-over and no bytes. Frames in flight count in the memory where it is capped. Values that are
/// no tensors (sequences, maps) keep their nodes together.
/// \pre  a pace for each device, or none
/// \error kInvalidArgument  no node, no device, a device twice, a remote device (its link is not
/// known);
///        kNotFound  a pin's device is not among the devices
Result<planner::Problem> problem_of(const graph::Graph& graph,
                                    const std::vector<device::Device>& devices,
                                    const GraphProblemOptions& options);

/// The problem over the links of a site. Each class is a type. Two groups without nodes stand
/// behind those of the nodes, each on a device of its own: what writes the network's inputs, and
/// what reads its outputs. The options' own costs and memory are not used.
Result<planner::Problem> problem_of(const graph::Graph& graph, const Site& site,
                                    const GraphProblemOptions& options);

}  // namespace penstock::cost
