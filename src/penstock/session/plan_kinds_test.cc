// Which devices chains of matrix products get on made-up machines, by quota and memory.
#include "penstock/session/plan_kinds.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/made_up_topologies.h"

namespace penstock {
namespace {

constexpr const char* kFourCoresOfTwo = "pack:1 numa:1 l3:1 core:4 pu:2";

/// A chain of products of a row with matrices, each of so many rows and columns.
graph::Graph products(const std::vector<std::int64_t>& sizes) {
  graph::Graph graph;
  const auto value = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    graph.values.emplace_back().name = name;
    graph.values.back().type = Type::tensor(DType::kF32, shape);
    return static_cast<graph::ValueId>(graph.values.size() - 1);
  };
  auto last = value("x", {1, sizes.front()});
  graph.inputs = {last};
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    const auto id = static_cast<graph::NodeId>(i);
    const auto weight = value(concat("w", i), {sizes[i], sizes[i + 1]});
    graph.values.back().constant = Tensor::allocate(DType::kF32, {sizes[i], sizes[i + 1]});
    const auto next = value(concat("v", i), {1, sizes[i + 1]});
    auto& node = graph.nodes.emplace_back();
    node.name = concat("n", i);
    node.op = "MatMul";
    node.inputs = {last, weight};
    node.outputs = {next};
    graph.values[graph::index(last)].consumers.push_back(id);
    graph.values[graph::index(weight)].consumers.push_back(id);
    graph.values[graph::index(next)].producer = id;
    last = next;
  }
  graph.outputs = {last};
  return graph;
}

/// Computing is all that costs: a multiply-accumulate takes a microsecond of a CPU.
PlanModelOptions computing() {
  PlanModelOptions options;
  options.costs.figures = {.macs_per_second = 1e6,
                           .bytes_per_second = 1e15,
                           .seconds_per_node = 1e-12,
                           .seconds_per_transfer = 1e-12};
  options.search.seconds = 1000;
  return options;
}

PlannedModel planned_on_machine(const graph::Graph& graph, const char* machine,
                                std::optional<double> quota, const PlanModelOptions& options) {
  auto topology = usable_machine(machine);
  topology.cpu_quota = quota;
  auto planned = plan_groupings(graph, topology, options);
  EXPECT_TRUE(planned) << planned.error().message();
  return planned ? *std::move(planned) : PlannedModel();
}

/// Of the stages, as they are to run.
std::vector<device::Device> devices_of(const PlannedModel& planned) {
  std::vector<device::Device> devices;
  const auto chosen = chosen_stages_of(planned);
  EXPECT_TRUE(chosen) << chosen.error().message();
  if (!chosen) return devices;
  for (const auto& stage : chosen->stages) {
    devices.insert(devices.end(), stage.devices.begin(), stage.devices.end());
  }
  EXPECT_TRUE(device::check_disjoint(devices));
  return devices;
}

std::size_t cpus_of(const std::vector<device::Device>& devices) {
  std::size_t count = 0;
  for (const auto& device : devices) count += device.cpus.size();
  return count;
}

TEST(PlanKindsTest, WhatCannotBeDividedHasADeviceOfAllCores) {
  const auto planned =
      planned_on_machine(products({32, 32}), "pack:1 numa:1 l3:1 core:4 pu:1", {}, computing());
  const auto devices = devices_of(planned);
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(to_string(devices.front()), "cpu:0-3");
  EXPECT_EQ(planned.grouping, "1 device of 4 CPUs");
  EXPECT_TRUE(planned.answer.proved);
  EXPECT_NEAR(planned.answer.evaluation.period, 1024e-6 / 4, 1e-9);
}

TEST(PlanKindsTest, WhatDoesNotScaleRunsOnEachCpu) {
  auto options = computing();
  options.costs.figures.seconds_per_node = 1;  // Which no further CPU shortens.
  options.search.replicas = true;
  const auto planned =
      planned_on_machine(products({4, 4, 4}), "pack:1 numa:1 l3:1 core:4 pu:1", {}, options);
  EXPECT_EQ(devices_of(planned).size(), 4U);
  EXPECT_EQ(planned.grouping, "4 devices of 1 CPU");
}

TEST(PlanKindsTest, SiblingsShareTheTimeOfTheirCore) {
  const auto planned = planned_on_machine(products({32, 32}), kFourCoresOfTwo, {}, computing());
  EXPECT_NEAR(planned.answer.evaluation.period, 1024e-6 / 4, 1e-9);
}

TEST(PlanKindsTest, AQuotaLimitsTheCpusAndTheirTime) {
  for (const double quota : {0.5, 1.0, 2.5}) {
    const auto planned =
        planned_on_machine(products({32, 32}), kFourCoresOfTwo, quota, computing());
    EXPECT_LE(cpus_of(devices_of(planned)), static_cast<std::size_t>(std::ceil(quota)));
    EXPECT_NEAR(planned.answer.evaluation.period, 1024e-6 / quota, 1e-9) << quota;
  }
}

TEST(PlanKindsTest, MemoryIsOfEachDevice) {
  auto options = computing();
  options.costs.memory = 1.5 * 32 * 32 * 4;  // Of one matrix, not of two.
  const auto planned =
      planned_on_machine(products({32, 32, 32}), "pack:1 numa:1 l3:1 core:4 pu:1", {}, options);
  EXPECT_EQ(planned.grouping, "2 devices of 2 CPUs");
  options.costs.memory = 1;
  const auto refused = plan_groupings(products({32, 32}), usable_machine(kFourCoresOfTwo), options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace penstock
