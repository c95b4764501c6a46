// What this machine is to callers of other ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/device/topology.h"

namespace penstock::host {

struct BackendFacts {
  backend::Description description;
  std::string rules;  ///< JSON; empty where it is unavailable.
  std::vector<backend::Precision> lower_precisions;
};

struct MachineFacts {
  std::string host;  ///< The system's own name for itself.
  device::Topology topology;
  std::uint64_t memory_left_bytes = 0;  ///< 0: not known.
  std::vector<BackendFacts> backends;
};

/// Loads the engines: takes seconds the first time. \error as device::read_topology()
Result<MachineFacts> read_machine(const backend::Registry& backends);

}  // namespace penstock::host
