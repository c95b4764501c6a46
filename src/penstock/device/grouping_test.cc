// Uses and groupings of made-up machines of up to 512 CPUs, with siblings, quota and cpuset.
#include "penstock/device/grouping.h"

#include <algorithm>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/made_up_topologies.h"

namespace penstock::device {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

std::vector<std::string> texts_of(const std::vector<Grouping>& groupings) {
  std::vector<std::string> texts;
  for (const auto& grouping : groupings) texts.push_back(grouping.text);
  return texts;
}

std::vector<std::string> texts_of(const std::vector<Use>& uses) {
  std::vector<std::string> texts;
  for (const auto& use : uses) texts.push_back(use.text);
  return texts;
}

std::vector<std::string> names_of(const Grouping& grouping) {
  std::vector<std::string> names;
  for (const auto& device : grouping.devices) names.push_back(to_string(device));
  return names;
}

const Grouping& find(const std::vector<Grouping>& groupings, const std::string& text) {
  const auto found = std::ranges::find(groupings, text, &Grouping::text);
  EXPECT_NE(found, groupings.end()) << text;
  return found == groupings.end() ? groupings.front() : *found;
}

/// Devices are of CPUs in use, no CPU is in two, and the shares tell what there is.
void expect_sound(const std::vector<Grouping>& groupings, const Use& use) {
  std::set<std::vector<std::string>> seen;
  for (const auto& grouping : groupings) {
    EXPECT_TRUE(check_disjoint(grouping.devices)) << grouping.text;
    EXPECT_TRUE(seen.insert(names_of(grouping)).second) << grouping.text;
    std::size_t device = 0;
    for (const auto& share : grouping.shares) {
      for (int i = 0; i < share.count; ++i) {
        ASSERT_LT(device, grouping.devices.size());
        EXPECT_EQ(grouping.devices[device++].cpus.size(), static_cast<std::size_t>(share.width));
      }
    }
    for (const auto& one : grouping.devices) {
      EXPECT_TRUE(std::ranges::includes(use.cpus, one.cpus)) << grouping.text;
    }
  }
}

/// All of `device` on one side of each border.
bool crosses(const Device& device, int border) {
  return std::ranges::any_of(device.cpus,
                             [&](int cpu) { return cpu / border != device.cpus.front() / border; });
}

TEST(GroupingTest, TwoCoresAreOneEachOrOneOfBothAndNothingElse) {
  const auto topology = usable_machine("numa:1 l3:1 l2:2 core:1 pu:1");
  const auto uses = uses_of(topology);
  EXPECT_THAT(texts_of(uses), ElementsAre("all 2 CPUs"));
  const auto groupings = uniform_groupings(topology, uses.front());
  EXPECT_THAT(texts_of(groupings), ElementsAre("2 devices of 1 CPU", "1 device of 2 CPUs"));
  EXPECT_THAT(names_of(groupings.front()), ElementsAre("cpu:0", "cpu:1"));
  EXPECT_THAT(texts_of(mixed_groupings(topology, uses.front())),
              ElementsAre("2 devices of 1 CPU", "1 device of 2 CPUs"));
}

TEST(GroupingTest, ThisMachineBeginsWithOneDevicePerCpuUnlessAQuotaForbids) {
  const auto topology = read_topology();
  ASSERT_TRUE(topology);
  if (topology->cpu_quota) GTEST_SKIP() << "a quota of " << *topology->cpu_quota << " CPUs";
  const auto first = uniform_groupings(*topology, uses_of(*topology).front()).front();
  std::vector<int> cpus;
  for (const auto& device : first.devices) {
    cpus.insert(cpus.end(), device.cpus.begin(), device.cpus.end());
  }
  std::ranges::sort(cpus);
  EXPECT_EQ(cpus, inherited_cpus());
}

TEST(GroupingTest, DevicesOfTwoNodesCrossNoBorderUnlessTheyAreWiderThanANode) {
  const auto topology = usable_machine("pack:2 numa:1 l3:1 core:32 pu:1");
  const auto use = uses_of(topology).front();
  const auto groupings = uniform_groupings(topology, use);
  EXPECT_THAT(texts_of(groupings),
              ElementsAre("64 devices of 1 CPU", "32 devices of 2 CPUs", "16 devices of 4 CPUs",
                          "8 devices of 8 CPUs", "4 devices of 16 CPUs", "2 devices of 32 CPUs",
                          "1 device of 64 CPUs"));
  expect_sound(groupings, use);
  const auto mixed = mixed_groupings(topology, use);
  expect_sound(mixed, use);
  EXPECT_GT(mixed.size(), 200U);
  EXPECT_THAT(names_of(find(mixed, "32 devices of 1 CPU + 1 of 32 CPUs")), Contains("cpu:0-31"));
  for (const auto& grouping : mixed) {
    for (const auto& device : grouping.devices) {
      EXPECT_EQ(crosses(device, 32), device.cpus.size() > 32) << grouping.text;
    }
  }
}

TEST(GroupingTest, HalfOfEachCacheIsAUse) {
  const auto topology = usable_machine("pack:2 numa:1 l3:1 core:32 pu:1");
  const auto uses = uses_of(topology);
  EXPECT_THAT(texts_of(uses), ElementsAre("all 64 CPUs", "32 CPUs, half of each cache's cores"));
  EXPECT_EQ(uses.back().cpus.front(), 0);
  EXPECT_EQ(uses.back().cpus[16], 32);
}

TEST(GroupingTest, FastAndSlowCoresHaveWidthsOfTheirOwn) {
  const auto topology = fast_and_slow();
  ASSERT_EQ(topology.cpus.size(), 16U);
  const auto uses = uses_of(topology);
  EXPECT_THAT(texts_of(uses), ElementsAre("all 16 CPUs", "8 CPUs of the fastest kind",
                                          "8 CPUs, half of each cache's cores"));
  EXPECT_EQ(uses[1].cpus, (std::vector{0, 1, 2, 3, 4, 5, 6, 7}));
  const auto groupings = uniform_groupings(topology, uses.front());
  EXPECT_EQ(groupings.size(), 17U);  // Four widths each, and all in one.
  expect_sound(groupings, uses.front());
  EXPECT_EQ(groupings.front().text,
            "8 devices of 1 CPU (fastest cores) + 8 of 1 CPU (slower cores)");
  EXPECT_THAT(
      names_of(find(groupings, "8 devices of 1 CPU (fastest cores) + 2 of 4 CPUs (slower cores)")),
      ElementsAre("cpu:0", "cpu:1", "cpu:2", "cpu:3", "cpu:4", "cpu:5", "cpu:6", "cpu:7",
                  "cpu:8-11", "cpu:12-15"));
  EXPECT_EQ(groupings.back().text, "1 device of 16 CPUs");
  const auto mixed = mixed_groupings(topology, uses.front());
  expect_sound(mixed, uses.front());
  EXPECT_EQ(mixed.size(), 100U);  // Eight CPUs are sums of powers of two in ten ways.
}

TEST(GroupingTest, SiblingsAreUsedOrLeftIdleAndShareADevice) {
  const auto topology = usable_machine("numa:1 l3:1 l2:4 core:1 pu:2");
  const auto uses = uses_of(topology);
  EXPECT_THAT(texts_of(uses), ElementsAre("all 8 CPUs", "1 CPU of each of 4 cores",
                                          "2 CPUs, half of each cache's cores"));
  EXPECT_EQ(uses[1].cpus, (std::vector{0, 2, 4, 6}));
  EXPECT_THAT(names_of(find(uniform_groupings(topology, uses[0]), "4 devices of 2 CPUs")),
              ElementsAre("cpu:0-1", "cpu:2-3", "cpu:4-5", "cpu:6-7"));
  EXPECT_THAT(names_of(find(uniform_groupings(topology, uses[1]), "2 devices of 2 CPUs")),
              ElementsAre("cpu:0+2", "cpu:4+6"));
}

TEST(GroupingTest, SiblingsNumberedApartStandTogether) {
  auto topology = usable_machine("numa:1 l3:1 core:2 pu:2(indexes=0,2,1,3)");
  EXPECT_THAT(
      names_of(find(uniform_groupings(topology, uses_of(topology)[0]), "2 devices of 2 CPUs")),
      ElementsAre("cpu:0+2", "cpu:1+3"));
}

TEST(GroupingTest, AQuotaIsRoundedBothWaysAndTakesWholeCoresFirst) {
  auto topology = usable_machine("numa:1 l3:1 l2:4 core:1 pu:2");
  topology.cpu_quota = 2.5;
  const auto uses = uses_of(topology);
  EXPECT_THAT(texts_of(uses),
              ElementsAre("2 CPUs of 8, for a quota of 2.5", "3 CPUs of 8, for a quota of 2.5"));
  EXPECT_EQ(uses[0].cpus, (std::vector{0, 2}));
  EXPECT_EQ(uses[1].cpus, (std::vector{0, 2, 4}));
  EXPECT_THAT(texts_of(uniform_groupings(topology, uses[1])),
              ElementsAre("3 devices of 1 CPU", "1 device of 2 CPUs", "1 device of 3 CPUs"));
  topology.cpu_quota = 0.5;
  EXPECT_THAT(texts_of(uses_of(topology)), ElementsAre("1 CPU of 8, for a quota of 0.5"));
  topology.cpu_quota = 64;
  EXPECT_EQ(uses_of(topology).front().text, "all 8 CPUs");
}

TEST(GroupingTest, UsualDevicesAreNoMoreThanTheQuotaLetsRun) {
  auto topology = usable_machine("numa:1 l3:1 l2:4 core:1 pu:2");
  EXPECT_EQ(usual_devices(topology).size(), 8U);
  topology.cpu_quota = 2.5;
  EXPECT_THAT(names_of({{}, usual_devices(topology), {}}), ElementsAre("cpu:0", "cpu:2", "cpu:4"));
  topology.cpu_quota = 0.5;
  EXPECT_THAT(names_of({{}, usual_devices(topology), {}}), ElementsAre("cpu:0"));
  for (auto& cpu : topology.cpus) cpu.allowed = cpu.number >= 6;
  topology.cpu_quota = 64;
  EXPECT_THAT(names_of({{}, usual_devices(topology), {}}), ElementsAre("cpu:6", "cpu:7"));
}

TEST(GroupingTest, UsualDevicesBeginWithThePowerfulCores) {
  auto topology = fast_and_slow();
  EXPECT_EQ(usual_devices(topology).front().cpus, (std::vector{0}));
  for (auto& cpu : topology.cpus) cpu.kind = 1 - cpu.kind;  // Numbered the other way.
  const auto devices = usual_devices(topology);
  ASSERT_EQ(devices.size(), 16U);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(devices[static_cast<std::size_t>(i)].cpus, (std::vector{(i + 8) % 16}));
  }
}

TEST(GroupingTest, CpusOutsideTheCpusetAreNotThere) {
  auto topology = usable_machine("numa:1 l3:2 core:4 pu:1");
  for (auto& cpu : topology.cpus) cpu.allowed = cpu.number >= 2 && cpu.number < 7;
  const auto use = uses_of(topology).front();
  EXPECT_EQ(use.cpus, (std::vector{2, 3, 4, 5, 6}));
  const auto groupings = uniform_groupings(topology, use);
  EXPECT_THAT(names_of(find(groupings, "2 devices of 2 CPUs")), ElementsAre("cpu:2-3", "cpu:4-5"));
  EXPECT_THAT(names_of(groupings.back()), ElementsAre("cpu:2-6"));
  expect_sound(mixed_groupings(topology, use), use);
}

TEST(GroupingTest, OfLargeMachinesThereAreNoMoreThanAskedForAndTheFirstAreUniform) {
  const auto topology = usable_machine("pack:2 numa:4 l3:4 core:8 pu:2");  // 512 CPUs.
  const auto use = uses_of(topology).front();
  EXPECT_LE(uniform_groupings(topology, use, 5).size(), 5U);
  const auto mixed = mixed_groupings(topology, use, 300);
  EXPECT_EQ(mixed.size(), 300U);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(mixed[i].shares.size(), 1U) << mixed[i].text;
  expect_sound(mixed, use);
}

}  // namespace
}  // namespace penstock::device
