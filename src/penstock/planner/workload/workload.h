// Workload: the planning problems of msr-fiddle/dnn-partitioning, read from JSON.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "penstock/base/result.h"
#include "penstock/planner/problem/problem.h"
#include "penstock/planner/problem/split.h"
#include "penstock/planner/search/search.h"

namespace penstock::planner {

/// Of one type.
inline constexpr int kMostDevices = 4096;

/// What to change in the file's problem.
struct WorkloadOptions {
  std::optional<int> devices;       ///< Accelerators; the file's `maxFPGAs` if absent.
  std::optional<int> cpus;          ///< CPU cores; the file's `maxCPUs` if absent.
  std::optional<double> memory;     ///< Bytes of each accelerator; else `maxSizePerFPGA`.
  double communication_factor = 1;  ///< Multiplies every edge's cost.
  Goal goal = Goal::kThroughput;
  bool one_stage = true;  ///< A device runs one stage; false: it may run several.
  bool join_idle = true;  ///< Keep nodes without time with the only node that each hangs on.
};

/// The problem of Tarnawski et al., NeurIPS 2020. Times are the file's (milliseconds).
///
/// Nodes of one colour class share a device. Where a device runs one stage they are one group, with
/// all nodes that lie between them. Where it may run several, each forward node is a group and
/// those of a colour are colocated; backward ones join the first forward one of their colour. A
/// node with out-edges is a value whose `transfer_time` is the edges' cost. Types "accelerator"
/// (serial, its memory capped) and "cpu" (neither memory nor transfers count); a type without
/// devices is left out. `order` is that of the forward nodes. With the latency goal the CPU type is
/// unlimited, and each node is a group, for there each starts when it can; those of one colour are
/// colocated.
///
/// Where a device runs one stage and memory may bind, a node without time joins the only node that
/// it has edges with: the authors' own reader does so, and the published optima rest on it, though
/// a plan that parts the two may be better. A note and `scope` of the problem say so; `join_idle`
/// stops it, and it does not happen where a joined group would fit no device.
///
/// Beyond that format, `deviceTypes` ([{"name", "count", "size", "modes"}]) stands for the fields
/// on accelerators and CPUs, and each node's `latencies` (a time for each type, or for each mode of
/// the types one after the other, or null) for its two. `modes` ([{"name", "launch"}]) are ways to
/// run a stage on that type; `launch` is what a stage costs beside its nodes.
///
/// \error kInvalidArgument: not JSON, a missing, non-finite or negative field, an id used twice or
/// unknown, unequal costs on the out-edges of a node, a cyclic or empty graph, a node that no
/// device supports or that fits none. The message names the culprit.
Result<Problem> parse_workload(std::string_view text, const WorkloadOptions& options);

/// The problem of a file. \error kNotFound where it cannot be read; others begin with its name.
Result<Problem> read_workload(const std::filesystem::path& path, const WorkloadOptions& options);

/// Device sets as the same project writes them, `{"fpgas": [{"nodes": [ids]}], "cpus": [...]}`, as
/// a split of the problem read from its workload: backward nodes follow their colour class, stages
/// stand in an order that respects the problem's. Sets that are not contiguous come out as they
/// are; evaluate() judges. Sets of `fpgas` go to the devices of all paying types in order. \error
/// kInvalidArgument names the node or set at fault
Result<Split> parse_workload_split(std::string_view text, const Problem& problem);

}  // namespace penstock::planner
