// Groupings: the devices that the CPUs of this machine could be.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "penstock/device/device.h"
#include "penstock/device/topology.h"

namespace penstock::device {

/// CPUs that are used, of those that the process may use; others stay idle.
struct Use {
  std::vector<int> cpus;  ///< Ascending.
  std::string text;       ///< "all 8 CPUs", "1 CPU of each of 4 cores"
};

/// Which CPUs are worth using, the plainest first; the first uses what the process may and no more
/// than its quota lets run. Then: one CPU of each core, where siblings share one; the most powerful
/// kind of cores alone; half of the CPUs of each cache, as they may share too little of it and of
/// the memory's bandwidth. Of a quota that is no whole number both neighbours. At most eight.
std::vector<Use> uses_of(const Topology& topology);

/// A device for each CPU that the process may use; under a quota for no more than it lets run,
/// rounded up: of cores of their own as long as there are such. Powerful cores first, as what has
/// one instance stands on the first. What is used where nobody names devices.
std::vector<Device> usual_devices(const Topology& topology);

/// So many devices of so many CPUs.
struct Share {
  int kind = 0;  ///< Cpu::kind
  int width = 1;
  int count = 0;
  bool operator==(const Share&) const = default;
};

/// Devices that may run side by side.
struct Grouping {
  std::vector<Share> shares;    ///< Powerful kinds first, then narrow devices. Empty: kinds mixed.
  std::vector<Device> devices;  ///< No CPU in two; in the order of the shares, then by CPU.
  std::string text;             ///< "8 devices of 4 CPUs + 2 of 1 CPU (slower cores)"
};

/// Devices as wide as each other, for each kind of core a width of its own: 1, 2, 4, ... CPUs, all
/// that share the last cache, all of a NUMA node, of the machine. Last all CPUs in one device. What
/// is narrower than a last cache crosses none; what is left over stays idle. Narrow ones first; at
/// most `most`.
std::vector<Grouping> uniform_groupings(const Topology& topology, const Use& use,
                                        std::size_t most = 64);

/// Devices of unlike widths of each kind of core, which together take all CPUs in use: those of one
/// width first, then of two, and so on. At most `most`.
std::vector<Grouping> mixed_groupings(const Topology& topology, const Use& use,
                                      std::size_t most = 4096);

}  // namespace penstock::device
