// WorkloadFile: what a workload's JSON says, checked field by field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/result.h"

namespace penstock::planner {

struct WorkloadMode {
  std::string name;
  double launch = 0;  ///< Time that each stage costs beside its nodes' times.
};

struct WorkloadType {
  std::string name;
  int count = 0;
  double memory = 0;  ///< Bytes of each; infinite: no cap.
  bool pays_transfers = true;
  std::vector<WorkloadMode> modes;  ///< Empty: one, of the type's name, with no launch cost.
};

struct WorkloadNode {
  std::string name;
  int id = 0;
  bool backward = false;
  std::vector<double> times;  ///< In each mode, type by type; infinite: not supported.
  double bytes = 0;
  std::optional<std::int64_t> colour;
};

struct WorkloadEdge {
  int from = 0, to = 0;  ///< Indices of nodes.
  double cost = 0;
  double bytes = 0;
};

struct WorkloadFile {
  std::vector<WorkloadType> types;  ///< "accelerator" and "cpu", or the file's own.
  bool own_types = false;
  std::vector<WorkloadNode> nodes;
  std::vector<WorkloadEdge> edges;
};

/// "node 7 ('conv1')".
std::string shown(const WorkloadNode& node);

/// \error kInvalidArgument as parse_workload() says, for what is wrong in a field or an edge's
/// ends.
Result<WorkloadFile> parse_workload_file(std::string_view text);

/// Lists of node ids, one for each device. `fpgas` come before `cpus`.
struct WorkloadSets {
  std::vector<std::vector<int>> accelerators, cpus;
};
Result<WorkloadSets> parse_workload_sets(std::string_view text);

}  // namespace penstock::planner
