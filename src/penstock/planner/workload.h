// Workload: the planning problems of msr-fiddle/dnn-partitioning, read from JSON.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "penstock/base/result.h"
#include "penstock/planner/problem.h"
#include "penstock/planner/search.h"
#include "penstock/planner/split.h"

namespace penstock::planner {

/// What to change in the file's problem.
struct WorkloadOptions {
  std::optional<int> devices;       ///< Accelerators; the file's `maxFPGAs` if absent.
  std::optional<int> cpus;          ///< CPU cores; the file's `maxCPUs` if absent.
  std::optional<double> memory;     ///< Bytes of each accelerator; else `maxSizePerFPGA`.
  double communication_factor = 1;  ///< Multiplies every edge's cost.
  Goal goal = Goal::kThroughput;
};

/// The problem of Tarnawski et al., NeurIPS 2020. Times are the file's (milliseconds).
///
/// Nodes of one colour class are one group, and so are nodes that lie between such; a node without
/// time joins the only node that it has edges with, as in the authors' own reader. A node with
/// out-edges is a value whose `transfer_time` is the edges' cost. Types "accelerator" (serial, its
/// memory capped) and "cpu" (neither memory nor transfers count); a type without devices is left
/// out. `order` is that of the forward nodes. With the latency goal the CPU type is unlimited, and
/// each node is a group, for there each starts when it can; those of one colour are colocated.
///
/// \error kInvalidArgument: not JSON, a missing, non-finite or negative field, an id used twice or
/// unknown, unequal costs on the out-edges of a node, a cyclic or empty graph, a node that no
/// device supports, memory that cannot suffice. The message names the culprit.
Result<Problem> parse_workload(std::string_view text, const WorkloadOptions& options);

/// The same from a file. \error kNotFound where it cannot be read; others begin with its name.
Result<Problem> read_workload(const std::filesystem::path& path, const WorkloadOptions& options);

/// Device sets as the same project writes them, `{"fpgas": [{"nodes": [ids]}], "cpus": [...]}`, as
/// a split of the problem read from its workload: backward nodes follow their colour class, stages
/// stand in an order that respects the problem's. Sets that are not contiguous come out as they
/// are; evaluate() judges. \error kInvalidArgument names the node or set at fault
Result<Split> parse_workload_split(std::string_view text, const Problem& problem);

}  // namespace penstock::planner
