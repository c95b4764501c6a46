// Keys of devices on made-up machines, figures, analytic times, and planner problems of graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/cost/graph_problem.h"
#include "penstock/cost/part_keys.h"
#include "penstock/graph/test_support.h"
#include "tests/support/made_up_machine.h"

namespace penstock::cost {
namespace {

using graph::Graph;
using graph::NodeId;
using testing::ElementsAre;
using testing::HasSubstr;

Graph two_products() {
  return graph::import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[4,8] x, float[8,16] a, float[16,2] b) => (float[4,2] y) {
      h = MatMul(x, a)
      y = MatMul(h, b)
    })");
}

std::vector<device::Device> devices(const std::string& text) {
  return *device::parse_devices(text);
}

std::string message_of(const Result<planner::Problem>& problem) {
  return problem ? "" : problem.error().message();
}

device::Topology machine(const char* description) {
  const MadeUpMachine made_up(description);
  auto topology = device::read_topology();
  EXPECT_TRUE(topology) << topology.error().message();
  return topology ? *std::move(topology) : device::Topology();
}

TEST(DeviceKeyTest, TellsNodesAndCachesApart) {
  const auto topology = machine("pack:2 numa:1 l3:1 core:32 pu:1");
  const auto key = [&](const char* text) { return device_key(topology, devices(text).front()); };
  EXPECT_EQ(key("cpu:0-1"), key("cpu:62-63"));
  EXPECT_NE(key("cpu:0-1"), key("cpu:31-32"));
}

TEST(DeviceKeyTest, TellsAcceleratorsApartByPlaceAndName) {
  const auto topology = machine("numa:1 l3:1 core:2 pu:1");
  const auto key = [&](const char* text, const char* name) {
    return accelerator_key(topology, devices(text).front(), name);
  };
  EXPECT_EQ(key("cuda:0", "fast 1"), topology.fingerprint + "/cuda:0 fast 1");
  EXPECT_EQ(key("cuda:0", ""), topology.fingerprint + "/cuda:0");
  EXPECT_NE(key("cuda:0", "fast 1"), key("cuda:1", "fast 1"));
}

TEST(LinkKeyTest, TellsWhatTheTwoShareAndTheQuota) {
  const auto key = [&](const device::Topology& topology, const char* from, const char* to) {
    return link_key(topology, devices(from).front(), devices(to).front());
  };
  const auto cores = machine("numa:1 l3:1 core:2 pu:1");
  const auto siblings = machine("numa:1 l3:1 core:1 pu:2");
  EXPECT_NE(key(cores, "cpu:0", "cpu:1"), key(siblings, "cpu:0", "cpu:1"));
  const auto nodes = machine("numa:2 l3:1 core:2 pu:1");
  EXPECT_NE(key(nodes, "cpu:0", "cpu:1"), key(nodes, "cpu:0", "cpu:2"));
  EXPECT_EQ(key(nodes, "cpu:0", "cpu:2"), key(nodes, "cpu:1", "cpu:3"));
  auto limited = cores;
  limited.cpu_quota = 1.5;
  EXPECT_NE(key(cores, "cpu:0", "cpu:1"), key(limited, "cpu:0", "cpu:1"));
}

TEST(DeviceKeyTest, FollowsTheQuotaAndTheGovernorsOfTheDevicesCpus) {
  auto topology = machine("numa:1 core:4 pu:1");
  for (auto& cpu : topology.cpus) cpu.allowed = true;
  topology.cpu_quota.reset();
  const auto key = [&] { return device_key(topology, devices("cpu:0-1").front()); };
  const auto plain = key();
  topology.cpu_quota = 4;  // All that the process may use: no limit.
  EXPECT_EQ(key(), plain);
  topology.cpu_quota = 2.5;
  EXPECT_EQ(key(), plain + "/quota2.5");
  topology.cpus[0].governor = topology.cpus[1].governor = "powersave";
  topology.cpus[3].governor = "performance";  // Of another device.
  EXPECT_EQ(key(), plain + "/quota2.5/powersave");
}

TEST(ConditionTest, TellsWhereTheNeighbourIs) {
  const auto nodes = machine("pack:2 numa:1 l3:1 core:32 pu:1");
  const auto siblings = machine("numa:1 core:4 pu:2");
  const auto condition = [](const device::Topology& topology, const char* neighbours) {
    return condition_of(topology, devices("cpu:0").front(), devices(neighbours));
  };
  EXPECT_EQ(condition(nodes, "cpu:1"), condition(nodes, "cpu:2"));
  EXPECT_NE(condition(nodes, "cpu:1"), condition(nodes, "cpu:32"));
  EXPECT_NE(condition(siblings, "cpu:1"), condition(siblings, "cpu:2"));
  EXPECT_EQ(condition_of(nodes, devices("cpu:0").front(), {}), "alone");
}

TEST(NodeSecondsTest, IsTheLargerOfComputingAndMovingAndTheEnginesWork) {
  const Graph graph = two_products();
  const double macs = 4 * 8 * 16;
  const double bytes = 4 * (4 * 8 + 8 * 16 + 4 * 16);
  EXPECT_DOUBLE_EQ(node_seconds(graph, NodeId{0}, {1e3, 1e9, 0.25, 0}, 1), macs / 1e3 + 0.25);
  EXPECT_DOUBLE_EQ(node_seconds(graph, NodeId{0}, {1e3, 1e9, 0.25, 0}, 4), macs / 4e3 + 0.25);
  EXPECT_DOUBLE_EQ(node_seconds(graph, NodeId{0}, {1e9, 1e3, 0.25, 0}, 4), bytes / 1e3 + 0.25);
}

TEST(FiguresTest, AreReadByName) {
  const auto figures = parse_figures("macs=3e9,transfer=1e-3");
  ASSERT_TRUE(figures);
  EXPECT_EQ(figures->macs_per_second, 3e9);
  EXPECT_EQ(figures->seconds_per_transfer, 1e-3);
  EXPECT_EQ(figures->bytes_per_second, Figures{}.bytes_per_second);
}

TEST(FiguresTest, RefuseWhatIsNone) {
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"speed=1", "found 'speed=1'"},
           {"macs", "macs: expected a positive number, found ''"},
           {"macs=-1", "found '-1'"},
           {"bytes=1e999", "found '1e999'"},
           {"node=nan", "found 'nan'"},
           {"node=1x", "found '1x'"}}) {
    const auto figures = parse_figures(text);
    ASSERT_FALSE(figures) << text;
    EXPECT_THAT(figures.error().message(), HasSubstr(message));
  }
}

TEST(ProblemOfGraphTest, HasAGroupForEachNodeAndATypeForEachSizeOfDevice) {
  const auto problem = problem_of(two_products(), devices("cpu:0,cpu:1-2,cpu:3"), {});
  ASSERT_TRUE(problem) << problem.error().message();
  ASSERT_EQ(problem->types.size(), 2U);
  EXPECT_THAT(problem->types[0].devices, ElementsAre("cpu:0", "cpu:3"));
  EXPECT_THAT(problem->types[1].devices, ElementsAre("cpu:1-2"));
  ASSERT_EQ(problem->groups.size(), 2U);
  EXPECT_THAT(problem->groups[1].nodes, ElementsAre(1));
  EXPECT_EQ(problem->groups[1].time.size(), 2U);
  ASSERT_EQ(problem->values.size(), 1U);
  EXPECT_EQ(problem->values[0].bytes, 4 * 4 * 16);
  EXPECT_THAT(problem->order, ElementsAre(std::pair(0, 1)));
}

TEST(ProblemOfGraphTest, HasATypeForEachPaceOfDevice) {
  GraphProblemOptions options;
  options.paces = {1, 2.5, 1};
  const auto problem = problem_of(two_products(), devices("cpu:0,cpu:1,cpu:2"), options);
  ASSERT_TRUE(problem) << problem.error().message();
  ASSERT_EQ(problem->types.size(), 2U);
  EXPECT_THAT(problem->types[0].devices, ElementsAre("cpu:0", "cpu:2"));
  EXPECT_THAT(problem->types[1].devices, ElementsAre("cpu:1"));
  const auto& time = problem->groups[0].time;
  EXPECT_DOUBLE_EQ(time[1], 2.5 * time[0]);
}

TEST(ProblemOfGraphTest, TakesMeasuredSecondsForTheCpusThatTheyWereMeasuredOn) {
  GraphProblemOptions options;
  options.figures.macs_per_second = 1;  // More CPUs help.
  options.node_seconds = {8, 4};
  options.measured_cpus = 2;
  const auto problem = problem_of(two_products(), devices("cpu:0,cpu:1-2"), options);
  ASSERT_TRUE(problem) << problem.error().message();
  EXPECT_DOUBLE_EQ(problem->groups[0].time[1], 8);
  EXPECT_GT(problem->groups[0].time[0], 8);
}

TEST(ProblemOfGraphTest, GivesAPinnedNodeADeviceOfItsOwn) {
  GraphProblemOptions options;
  options.pins = {{NodeId{1}, devices("cpu:1").front()}};
  const auto problem = problem_of(two_products(), devices("cpu:0,cpu:1"), options);
  ASSERT_TRUE(problem) << problem.error().message();
  ASSERT_EQ(problem->types.size(), 2U);
  EXPECT_THAT(problem->types[1].devices, ElementsAre("cpu:1"));
  options.pins = {{NodeId{1}, devices("cpu:7").front()}};
  EXPECT_THAT(message_of(problem_of(two_products(), devices("cpu:0,cpu:1"), options)),
              HasSubstr("cpu:7"));
}

/// CPUs, and two accelerators of which the second has a narrower way.
Result<Site> beside_accelerators() {
  Beside near, far;
  near.devices.devices = devices("cuda:0");
  near.devices.costs.node_seconds = {planner::kInfinite, 0.25};
  near.there = {.latency = 1, .bandwidth = 1000};
  near.back = {.latency = 2, .bandwidth = 500};
  far.devices.devices = devices("cuda:1");
  far.there = {.latency = 3, .bandwidth = 100};
  far.back = {.latency = 4, .bandwidth = 50};
  return site_beside(devices("cpu:0,cpu:1"), {}, {near, far});
}

TEST(SiteBesideTest, WhatGoesToAnAcceleratorIsCopiedFromTheHostsMemory) {
  const auto site = beside_accelerators();
  ASSERT_TRUE(site) << site.error().message();
  constexpr std::size_t kCpus = 0, kNear = 1, kFar = 2, kCaller = 3;
  EXPECT_EQ(site->links[kCpus][kCpus].latency, 0);
  EXPECT_EQ(site->links[kCpus][kCaller].bandwidth, planner::kInfinite);
  for (const auto host : {kCpus, kCaller}) {
    EXPECT_EQ(site->links[host][kNear].latency, 1);
    EXPECT_DOUBLE_EQ(site->links[host][kNear].bandwidth, 1000);
    EXPECT_EQ(site->links[kFar][host].latency, 4);
    EXPECT_DOUBLE_EQ(site->links[kFar][host].bandwidth, 50);
  }
  // Through the host's memory.
  EXPECT_EQ(site->links[kNear][kFar].latency, 2 + 3);
  EXPECT_DOUBLE_EQ(site->links[kNear][kFar].bandwidth, 1 / (1.0 / 500 + 1.0 / 100));
}

TEST(SiteBesideTest, ANodeThatAnAcceleratorDoesNotTakeHasNoTimeThere) {
  const auto site = beside_accelerators();
  ASSERT_TRUE(site) << site.error().message();
  const auto problem = problem_of(two_products(), *site, {});
  ASSERT_TRUE(problem) << problem.error().message();
  EXPECT_THAT(problem->types[1].devices, ElementsAre("cuda:0"));
  EXPECT_EQ(problem->groups[0].time[1], planner::kInfinite);
  EXPECT_DOUBLE_EQ(problem->groups[1].time[1], 0.25);
}

TEST(ProblemOfGraphTest, RefusesDevicesThatItCannotJudge) {
  EXPECT_THAT(message_of(problem_of(two_products(), devices("cpu:0,cuda:0"), {})),
              HasSubstr("device 'cuda:0'"));
  EXPECT_THAT(message_of(problem_of(two_products(), std::vector<device::Device>(), {})),
              HasSubstr("at least one"));
  EXPECT_THAT(message_of(problem_of(two_products(), devices("cpu:0,cpu:0"), {})),
              HasSubstr("cpu:0"));
  EXPECT_THAT(message_of(problem_of(two_products(), devices("host:1/cpu:0"), {})),
              HasSubstr("(--hosts)"));
  EXPECT_THAT(message_of(problem_of(two_products(), devices("cpu:0-1,cpu:1"), {})),
              HasSubstr("device 'cpu:1': CPU 1 is in another device too"));
}

}  // namespace
}  // namespace penstock::cost
