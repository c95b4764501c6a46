// Where a device lies on its machine, and what it has in common with those beside it.
#pragma once

#include <string>
#include <vector>

#include "penstock/device/device.h"
#include "penstock/device/topology.h"

namespace penstock::device {

/// How many CPUs of each kind the device has, and over how many cores, NUMA nodes and caches of
/// each level they lie: "4k0/2cores/1nodes/2L1/1L2". Devices of one text that have the machine to
/// themselves take the same time.
std::string place_of(const Topology& topology, const Device& device);

/// What else decides how fast the CPUs are: a quota that does not let all run that the process may
/// use, and the governors: "/quota2.5/powersave"; empty: nothing is known of either.
std::string limits_of(const Topology& topology, const std::vector<int>& cpus);

/// The CPUs that the process may use, ascending.
std::vector<int> allowed_cpus(const Topology& topology);

/// How many of the others' CPUs share a core, a cache of each level or a NUMA node with the device:
/// "core:1 L1:1 L2:3 node:7"; empty: they have nothing in common.
std::string shared_with(const Topology& topology, const Device& device,
                        const std::vector<Device>& others);

/// So many of the others as have the most in common with the device: its core before a cache, a low
/// level before a high one, caches before the NUMA node. In their order.
std::vector<Device> nearest(const Topology& topology, const Device& device,
                            const std::vector<Device>& others, std::size_t count);

/// For each device a text of its place and of what it shares with the rest of them. Devices of one
/// text take the same time while all are busy. \pre  CPUs of this machine
std::vector<std::string> kinds_of(const Topology& topology, const std::vector<Device>& devices);

}  // namespace penstock::device
