// Cpuset, siblings and memory of this machine; made-up machines of 256 and 2,048 CPUs.
#include "penstock/device/topology.h"

#include <cstdlib>
#include <fstream>
#include <numeric>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/device/cgroup.h"
#include "penstock/device/device.h"
#include "tests/support/made_up_machine.h"
#include "tests/support/temporary_folder.h"

namespace penstock::device {
namespace {

TEST(TopologyTest, MarksExactlyTheInheritedCpusAsAllowed) {
  const auto topology = read_topology();
  ASSERT_TRUE(topology);
  std::vector<int> allowed;
  for (const auto& cpu : topology->cpus) {
    if (cpu.allowed) allowed.push_back(cpu.number);
  }
  EXPECT_EQ(allowed, inherited_cpus());
}

TEST(TopologyTest, SiblingsAreMutualAndOfTheSameCore) {
  const auto topology = read_topology();
  ASSERT_TRUE(topology);
  for (const auto& cpu : topology->cpus) {
    for (const auto& other : topology->cpus) {
      const bool named = std::ranges::count(cpu.siblings, other.number) > 0;
      EXPECT_EQ(named, cpu.number != other.number && cpu.core == other.core);
    }
  }
}

TEST(TopologyTest, KnowsMemoryAndAStableFingerprint) {
  const auto topology = read_topology();
  ASSERT_TRUE(topology);
  const auto left = read_available_memory("/proc/meminfo", "/proc/self/cgroup", "/sys/fs/cgroup");
  ASSERT_TRUE(left);
  EXPECT_GE(topology->memory_bytes, *left);
  EXPECT_EQ(topology->fingerprint.size(), 16U);
  EXPECT_EQ(topology->fingerprint, read_topology()->fingerprint);
}

std::vector<int> numbers_from(int first, int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

TEST(LargeTopologyTest, EveryOneOf256CpusHasItsPlace) {
  const MadeUpMachine machine("pack:2 numa:4 l3:2 l2:8 core:1 pu:2");
  const auto topology = read_topology();
  ASSERT_TRUE(topology) << topology.error().message();
  ASSERT_EQ(topology->cpus.size(), 256U);
  for (int number = 0; number < 256; ++number) {
    const Cpu& cpu = topology->cpus[static_cast<std::size_t>(number)];
    EXPECT_EQ(cpu.number, number);
    EXPECT_EQ(cpu.core, number / 2) << number;
    EXPECT_EQ(cpu.package, number / 128) << number;
    EXPECT_EQ(cpu.numa_node, number / 32) << number;
    EXPECT_EQ(cpu.siblings, (std::vector{number ^ 1})) << number;
  }
  ASSERT_EQ(topology->numa_nodes.size(), 8U);
  EXPECT_EQ(topology->numa_nodes[7].cpus, numbers_from(224, 32));
  std::set<std::vector<int>> shared;
  for (const auto& cache : topology->caches) {
    if (cache.level == 3) shared.insert(cache.cpus);
  }
  EXPECT_EQ(shared.size(), 16U);
  EXPECT_TRUE(shared.contains(numbers_from(240, 16)));
}

TEST(LargeTopologyTest, ACpuBeyondTheFixedSetsOfTheLibraryIsRead) {
  const MadeUpMachine machine("numa:8 core:256 pu:1");
  const auto topology = read_topology();
  ASSERT_TRUE(topology) << topology.error().message();
  ASSERT_EQ(topology->cpus.size(), 2048U);
  EXPECT_EQ(topology->cpus.back().number, 2047);
  EXPECT_EQ(topology->cpus.back().numa_node, 7);
  EXPECT_EQ(topology->numa_nodes.back().cpus, numbers_from(1792, 256));
}

TEST(LargeTopologyTest, AllOfAMadeUpMachineIsAllowedAndNothingRunsOnIt) {
  const MadeUpMachine machine("numa:8 core:256 pu:1");
  const auto topology = read_topology();
  ASSERT_TRUE(topology) << topology.error().message();
  EXPECT_TRUE(topology->made_up);
  for (const auto& cpu : topology->cpus) EXPECT_TRUE(cpu.allowed) << cpu.number;
  EXPECT_FALSE(topology->cpu_quota);
  const auto here = check_here(*topology);
  ASSERT_FALSE(here);
  EXPECT_THAT(here.error().message(), testing::HasSubstr("the machine is made up"));
}

TEST(TopologyTest, AMachineThatHwlocCannotMakeUpIsTold) {
  for (const auto* description : {"core:4", "garbage:x"}) {
    const MadeUpMachine machine(description);
    const auto topology = read_topology();
    ASSERT_FALSE(topology) << description;
    EXPECT_EQ(topology.error().code, Code::kInvalidArgument);
    EXPECT_THAT(topology.error().message(), testing::HasSubstr(description));
    EXPECT_THAT(topology.error().message(), testing::HasSubstr("HWLOC_SYNTHETIC"));
  }
  setenv("HWLOC_XMLFILE", "/absent.xml", 1);
  const auto topology = read_topology();
  unsetenv("HWLOC_XMLFILE");
  ASSERT_FALSE(topology);
  EXPECT_THAT(topology.error().message(), testing::HasSubstr("HWLOC_XMLFILE='/absent.xml'"));
}

TEST(TopologyTest, AMachineOfMoreCpusThanThereAreIsToldAtOnce) {
  for (const auto* description :
       {"core:20000 pu:1", "10000 2", "pack:2 [numa] core:2(x=1 3:2) pu:5000"}) {
    const MadeUpMachine machine(description);
    const auto topology = read_topology();
    ASSERT_FALSE(topology) << description;
    EXPECT_EQ(topology.error().code, Code::kInvalidArgument);
    EXPECT_THAT(topology.error().message(),
                testing::HasSubstr("20000 CPUs; expected at most 8192"));
  }
}

TEST(TopologyTest, ADamagedDescriptionOfAMachineIsToldWithItsFile) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "machine.xml";
  for (const std::string text :
       {"", "<?xml version=\"1.0\"?><topology version=\"2.0\"><obj", "no"}) {
    std::ofstream(file) << text;
    setenv("HWLOC_XMLFILE", file.c_str(), 1);
    const auto topology = read_topology();
    unsetenv("HWLOC_XMLFILE");
    ASSERT_FALSE(topology) << text;
    EXPECT_EQ(topology.error().code, Code::kInvalidArgument) << text;
    EXPECT_THAT(topology.error().message(), testing::HasSubstr("HWLOC_XMLFILE='" + file.string()));
  }
}

TEST(TopologyTest, ThisMachineIsHere) {
  const auto topology = read_topology();
  ASSERT_TRUE(topology);
  EXPECT_FALSE(topology->made_up);
  EXPECT_TRUE(check_here(*topology));
}

}  // namespace
}  // namespace penstock::device
