// How busy a plan keeps what its devices share: wires, and the CPUs that handle messages.
#pragma once

#include <string>
#include <vector>

#include "penstock/hosts/hosts.h"
#include "penstock/hosts/network.h"
#include "penstock/planner/problem/split.h"

namespace penstock::hosts {

/// Seconds for each frame.
struct WireLoad {
  std::string name;
  double seconds = 0;
};

/// What each wire carries, and what the CPUs of each host compute and handle, where it is known
/// what messages take of it. The busiest first; those that have nothing to do are left out.
std::vector<WireLoad> loads_of(const planner::Problem& problem, const planner::Split& split,
                               const Hosts& hosts, const Network& network);

/// "CPUs of 'a'", as loads_of() has it.
std::string cpus_of(const Host& host);

/// Of its CPUs' time what the host's quota leaves the device: from 0 to 1.
double share_of(const Host& host, const std::vector<device::Device>& devices,
                const device::Device& device);

}  // namespace penstock::hosts
