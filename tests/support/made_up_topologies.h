// Machines that are not here, as hwloc tells of them.
#pragma once

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <hwloc.h>

#include "penstock/device/topology.h"
#include "tests/support/made_up_machine.h"
#include "tests/support/temporary_folder.h"

namespace penstock {

/// All of whose CPUs may be used.
inline device::Topology all_allowed(Result<device::Topology> topology) {
  EXPECT_TRUE(topology) << topology.error().message();
  if (!topology) return {};
  for (auto& cpu : topology->cpus) cpu.allowed = true;
  topology->cpu_quota.reset();
  return *std::move(topology);
}

/// Of one of hwloc's synthetic descriptions.
inline device::Topology usable_machine(const char* description) {
  const MadeUpMachine made_up(description);
  return all_allowed(device::read_topology());
}

/// As a file of hwloc has it: cores 0 to 7 are more powerful than 8 to 15.
inline device::Topology fast_and_slow() {
  const TemporaryFolder folder;
  const auto file = (folder.path() / "machine.xml").string();
  hwloc_topology_t made = nullptr;
  hwloc_topology_init(&made);
  hwloc_topology_set_synthetic(made, "pack:1 numa:1 l3:1 l2:16 core:1 pu:1");
  hwloc_topology_load(made);
  for (int kind = 0; kind < 2; ++kind) {
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    hwloc_bitmap_set_range(cpus, kind == 0 ? 8U : 0U, kind == 0 ? 15 : 7);
    hwloc_cpukinds_register(made, cpus, kind, 0, nullptr, 0);
    hwloc_bitmap_free(cpus);
  }
  EXPECT_EQ(hwloc_topology_export_xml(made, file.c_str(), 0), 0);
  hwloc_topology_destroy(made);
  setenv("HWLOC_XMLFILE", file.c_str(), 1);
  auto topology = all_allowed(device::read_topology());
  unsetenv("HWLOC_XMLFILE");
  return topology;
}

}  // namespace penstock
