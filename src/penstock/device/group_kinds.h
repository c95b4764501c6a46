// Kinds of groups: what is to be measured before one can choose among a machine's groupings.
#pragma once

#include <cstddef>
#include <vector>

#include "penstock/device/device.h"
#include "penstock/device/grouping.h"
#include "penstock/device/topology.h"

namespace penstock::device {

/// Devices that are alike: of one use of the CPUs, one kind of core and one width.
struct GroupKind {
  std::size_t use = 0;  ///< Index into Groupings::uses.
  int kind = 0;         ///< Cpu::kind; -1: CPUs of all kinds that the use has.
  int width = 1;        ///< CPUs.
  /// As many as the use has room for: what is measured runs on the first, and beside it on others.
  std::vector<Device> devices;
};

/// The groupings that a machine offers, by the kinds of devices in them.
struct Groupings {
  std::vector<Use> uses;
  std::vector<GroupKind> kinds;          ///< By use, powerful kinds and narrow devices first.
  std::vector<Grouping> groupings;       ///< By use, those of one width first.
  std::vector<std::vector<int>> counts;  ///< [grouping][kind] Devices of it.
};

/// Of each of uses_of() the uniform and then the mixed groupings, each once. Devices of a grouping
/// stand in the order of its kinds. At most `most` of each use.
Groupings groupings_of(const Topology& topology, std::size_t most = 4096);

}  // namespace penstock::device
