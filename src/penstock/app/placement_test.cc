// Heavy stages stand alone, only some get replicas, fixed ones stay: a chain on a few CPUs.
#include "penstock/app/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::app {
namespace {

/// x -> a -> b -> c -> y
plan::Plan chain() {
  plan::Plan plan;
  const std::vector<std::string> tensors = {"x", "ab", "bc", "y"};
  for (std::size_t i = 0; i < 3; ++i) {
    auto& stage = plan.stages.emplace_back();
    stage.name = std::string(1, static_cast<char>('a' + i));
    stage.inputs = {tensors[i]};
    stage.outputs = {tensors[i + 1]};
    stage.devices = {{.host = {}, .cpus = {7}}};
  }
  const auto type = Type::tensor(DType::kF32, std::vector<std::int64_t>{1});
  plan.inputs = {{"x", type}};
  plan.outputs = {{"y", type}};
  plan.tensors = {{"ab", type}, {"bc", type}};
  plan::connect(plan);
  return plan;
}

std::vector<device::Device> cpus(int count) {
  std::vector<device::Device> devices;
  for (int cpu = 0; cpu < count; ++cpu) devices.push_back({.host = {}, .cpus = {cpu}});
  return devices;
}

TEST(PlacementTest, AHeavyStageHasADeviceOfItsOwn) {
  const auto placed = place_stages(chain(), {{3}, {5}, {2}}, cpus(2), false);
  ASSERT_TRUE(placed) << placed.error().message();
  const auto& at = placed->devices;
  for (const auto& devices : at) EXPECT_EQ(devices.size(), 1U);
  EXPECT_EQ(at[0], at[2]);  // One behind the other is 8.
  EXPECT_NE(at[0], at[1]);
  EXPECT_NEAR(placed->lower_bound_seconds, 5, 1e-3);
}

TEST(PlacementTest, OnlyStagesThatMayHaveReplicas) {
  auto placed = place_stages(chain(), {{8}, {1, true}, {1}}, cpus(3), true);
  ASSERT_TRUE(placed) << placed.error().message();
  EXPECT_EQ(placed->devices[0].size(), 2U);
  EXPECT_EQ(placed->devices[1].size(), 1U);
  placed = place_stages(chain(), {{8, true}, {1}, {1}}, cpus(3), true);
  ASSERT_TRUE(placed) << placed.error().message();
  EXPECT_EQ(placed->devices[0].size(), 1U);
}

TEST(PlacementTest, WhatTheApplicationPlacesStays) {
  const auto placed = place_stages(chain(), {{3}, {9, false, true}, {3}}, cpus(2), false);
  ASSERT_TRUE(placed) << placed.error().message();
  EXPECT_EQ(placed->devices[1], chain().stages[1].devices);
  EXPECT_NE(placed->devices[0], placed->devices[2]);
}

}  // namespace
}  // namespace penstock::app
