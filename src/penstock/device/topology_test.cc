#include "penstock/device/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/device/device.h"

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
  EXPECT_GT(topology->memory_bytes, 0U);
  EXPECT_EQ(topology->fingerprint.size(), 16U);
  EXPECT_EQ(topology->fingerprint, read_topology()->fingerprint);
}

}  // namespace
}  // namespace penstock::device
