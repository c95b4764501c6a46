// Problem: what the planner is asked. A plain value that needs no network and no engine.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/result.h"

namespace penstock::planner {

/// Times are in one unit of the caller's choice (seconds from a graph, milliseconds in the public
/// workloads), memory in bytes. Infinite means: cannot, or without limit.
inline constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Which of computing P, receiving I and sending O a device does at once.
enum class Overlap {
  kSerial,      ///< load = P + I + O
  kHalfDuplex,  ///< load = max(P, I + O)
  kFullDuplex,  ///< load = max(P, I, O)
};

/// Devices that are alike and interchangeable. A device that something is pinned to is a type
/// alone.
struct DeviceType {
  std::string name;                  ///< "accelerator", "cpu:0"
  std::vector<std::string> devices;  ///< One name for each device; unique in the problem.
  /// One device for every stage, as many as wanted at once: the processor cores of the latency
  /// problem. `devices` is empty, every stage on it is one group, its load counts nowhere.
  bool unlimited = false;
  double memory = kInfinite;  ///< Bytes of each device.
  Overlap overlap = Overlap::kSerial;
  bool pays_transfers = true;  ///< False: what it reads and writes costs it no time.
};

/// A way to run groups: a device type with a backend and a precision. Each stage runs in one mode.
struct Mode {
  std::string name;   ///< "cpu/onnxruntime/fp32"
  int type = 0;       ///< Index into Problem::types.
  double launch = 0;  ///< Time that each stage costs beside its groups' times.
};

/// What is never divided: a node, or nodes that must stay together.
struct Group {
  std::string name;          ///< For messages and pictures.
  std::vector<int> nodes;    ///< The caller's node ids, for reports.
  std::vector<double> time;  ///< For each mode; kInfinite where the mode does not support it.
  double memory = 0;         ///< Bytes of weights (and whatever else stays) on its device.
};

/// A tensor that one group writes and others read: a hyperedge over the groups.
struct Value {
  std::string name;
  int producer = 0;
  std::vector<int> consumers;  ///< Not the producer; may be empty (then it moves nowhere).
  double bytes = 0;
  double transfer_time = 0;  ///< Fixed time of moving it in or out, beside latency and bandwidth.
};

/// Moving a value from a device of one type to another device: latency + bytes / bandwidth.
struct Link {
  double latency = 0;
  double bandwidth = kInfinite;  ///< Bytes per unit of time.
};

/// A stage S in mode m on a device of type t, with a value v's end on it, costs:
///   P = launch_m + sum over its groups of time[m]
///   I = sum of transfer(v, writer's type, t) over values v read by S, written elsewhere
///   O = sum of the largest transfer(v, t, reader's type) over values v of S, read elsewhere
/// each value once, where
///   transfer(v, a, b) = v.transfer_time + links[a][b].latency + v.bytes / links[a][b].bandwidth
/// (none of I and O where `pays_transfers` is false). Stages on the same device exchange values
/// free, and a device receives or sends a value once for all its stages. r replicas divide a
/// stage's load by r. Source: Tarnawski et al., NeurIPS 2020 (device types alike, host-staged); the
/// rest extends it.
struct Problem {
  std::vector<DeviceType> types;
  std::vector<Mode> modes;
  std::vector<Group> groups;
  std::vector<Value> values;
  /// Pairs (before, after) of groups: the stages of a pipeline must respect them. From a graph:
  /// every producer with each consumer. Of a training graph: the forward part only.
  std::vector<std::pair<int, int>> order;
  std::vector<std::vector<Link>> links;     ///< [type][type]; empty: all free but `transfer_time`.
  std::vector<std::vector<int>> colocated;  ///< Sets of groups that must share a stage's device.
  /// Count in each device's memory the frames in flight: a value's bytes times (last reading
  /// stage's place - writing stage's place + 1), at its writer's and at each reader's device.
  bool frames_in_flight = false;
  std::vector<std::string> notes;  ///< For people: what its maker decided that may cost something.
  /// For people: which plans it has, where its maker left some out, as in "that keeps a and b
  /// together". Bounds and proofs speak of those. Empty: all.
  std::string scope;
  bool in_seconds = false;  ///< For people: times are seconds; else in a unit that nobody told.
};

/// Time of moving `value` from a device of type `from` to another device, of type `to`.
double transfer_time(const Problem& problem, const Value& value, int from, int to);

/// Every way in which the problem is no problem, one sentence each that names the culprit: no group
/// or device, indices out of range, NaN or negative times, bytes or costs, `time` not one for each
/// mode, a device named twice, a group that no mode supports, a circle in `order`, a group larger
/// than every device that supports it. \error kInvalidArgument with the first of them.
Status validate(const Problem& problem);

/// The same problem in which `group` may run on the device named `device` only: the device becomes
/// a type (and its modes) of its own. \error kNotFound for an unknown device, kOutOfRange for the
/// group
Result<Problem> pin(Problem problem, int group, const std::string& device);

}  // namespace penstock::planner
