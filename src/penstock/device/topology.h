// What this machine is: CPUs, cores, caches, memory nodes, limits. Shown by `penstock devices`.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/result.h"

namespace penstock::device {

struct Cpu {
  int number = 0;   ///< Logical CPU of the operating system.
  int core = 0;     ///< Physical core; SMT siblings share it.
  int package = 0;  ///< Socket.
  int numa_node = 0;
  int kind = 0;  ///< Core kind by efficiency: 0 is the least powerful; all 0 if uniform.
  std::vector<int> siblings;  ///< Other logical CPUs of the same core.
  bool allowed = true;        ///< Inside the inherited cpuset.
  std::string governor;       ///< read_governor()
};

struct Cache {
  int level = 0;
  std::size_t size_bytes = 0;
  std::size_t line_bytes = 0;
  std::vector<int> cpus;  ///< Who shares it.
};

struct NumaNode {
  int number = 0;
  std::size_t memory_bytes = 0;
  std::vector<int> cpus;
};

struct Topology {
  std::string cpu_model;    ///< "Intel(R) Xeon(R) ...", or empty.
  std::string fingerprint;  ///< Stable id of the CPU model, flags and cache sizes.
  std::vector<Cpu> cpus;
  std::vector<Cache> caches;
  std::vector<NumaNode> numa_nodes;
  std::size_t memory_bytes = 0;
  std::optional<double> cpu_quota;  ///< cgroup limit in CPUs ("1.5"); empty if none.
  bool made_up = false;             ///< Not this machine: all its CPUs are allowed, without quota.
};

/// Reads the machine with hwloc, the cpuset from the scheduler and the quota from cgroup v1 or v2;
/// or the machine that the environment describes (HWLOC_SYNTHETIC, HWLOC_XMLFILE).
Result<Topology> read_topology();

/// The fingerprint of read_topology(), read once a process: where memory is refused to hwloc, it
/// ends the process. \error those of read_topology()
Result<std::string> cpu_fingerprint();

/// The CPUs that a plan may name, ascending: those that the process may use, or all of the machine
/// that the environment describes. \error those of read_topology(), where it describes one
Result<std::vector<int>> cpus_to_plan_for();

/// Whether it is this machine, so that something can run and be measured on it.
/// \error kFailedPrecondition  it is made up
Status check_here(const Topology& topology);

}  // namespace penstock::device
