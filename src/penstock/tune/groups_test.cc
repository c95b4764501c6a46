// Plans by invented costs on made-up machines: scaling, memory, unlike cores and slow links.
#include "penstock/tune/groups.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/tune/test_graphs.h"
#include "tests/support/made_up_topologies.h"

namespace penstock::tune {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// A chain of four nodes, each with so many kilobytes of weights.
graph::Graph chain_of_four(std::int64_t kilobytes) {
  return weighed({kilobytes, kilobytes, kilobytes, kilobytes});
}

using Law = std::function<double(const device::GroupKind&)>;

GroupCosts costs(const graph::Graph& graph, const device::Groupings& groupings,
                 const std::string& backend, const Law& law) {
  GroupCosts made{whole_cover(graph, {backend, {}}), {1, 1, 1, 1}, {}};
  for (const auto& kind : groupings.kinds) made.kind_seconds.push_back(law(kind));
  return made;
}

/// Each node is in one stage, and no CPU in two devices.
void expect_sound(const Grouped& plan) {
  std::set<graph::NodeId> nodes;
  std::vector<device::Device> devices;
  for (const auto& stage : plan.split.stages) {
    for (const auto node : stage.nodes) EXPECT_TRUE(nodes.insert(node).second);
    devices.insert(devices.end(), stage.devices.begin(), stage.devices.end());
    EXPECT_FALSE(stage.parts.empty());
  }
  EXPECT_EQ(nodes.size(), 4U);
  EXPECT_TRUE(check_disjoint(devices));
}

std::vector<std::string> names_of(const partition::ChosenStage& stage) {
  std::vector<std::string> names;
  for (const auto& device : stage.devices) names.push_back(to_string(device));
  return names;
}

Result<std::vector<Grouped>> plans_of(const graph::Graph& graph, const device::Groupings& groupings,
                                      const std::vector<GroupCosts>& costs,
                                      const HostMemory& memory = {},
                                      HandingOver handing_over = {}) {
  handing_over.figures.seconds_per_transfer = 1e-6;
  return grouped(graph, groupings, costs, handing_over, {.memory = memory, .seconds = 1000});
}

TEST(GroupsTest, WhatDoesNotScaleRunsOnEachCpu) {
  const auto groupings = device::groupings_of(usable_machine("numa:1 l3:1 core:4 pu:1"));
  const auto graph = chain_of_four(1);
  const auto plans =
      plans_of(graph, groupings, {costs(graph, groupings, "one", [](auto&) { return 1; })});
  ASSERT_TRUE(plans) << plans.error().message();
  ASSERT_FALSE(plans->empty());
  EXPECT_EQ(plans->front().grouping, "4 devices of 1 CPU");
  EXPECT_DOUBLE_EQ(plans->front().period_seconds, 0.25);
  EXPECT_EQ(plans->front().split.stages.size(), 1U);
  expect_sound(plans->front());
}

TEST(GroupsTest, WhereCpusGetInEachOthersWayFewerAreUsed) {
  const auto groupings = device::groupings_of(usable_machine("numa:1 l3:1 l2:4 core:1 pu:2"));
  const auto graph = chain_of_four(1);
  const auto shares_a_core = [](const device::GroupKind& kind) { return kind.use == 0 ? 3.0 : 1; };
  const auto plans = plans_of(graph, groupings, {costs(graph, groupings, "one", shares_a_core)});
  ASSERT_TRUE(plans) << plans.error().message();
  EXPECT_THAT(names_of(plans->front().split.stages.front()),
              testing::ElementsAre("cpu:0", "cpu:2", "cpu:4", "cpu:6"));
  EXPECT_EQ(plans->size(), 3U) << "one for each use";
}

TEST(GroupsTest, WhereMemoryHoldsNoCopyForEachCpuDevicesAreWideOrStagesMany) {
  const auto groupings = device::groupings_of(usable_machine("numa:1 l3:1 core:4 pu:1"));
  const auto graph = chain_of_four(1000);
  const auto scales = [](const device::GroupKind& kind) { return 1.0 / kind.width; };
  // Two copies fit.
  const auto plans =
      plans_of(graph, groupings, {costs(graph, groupings, "one", scales)}, {8.5e6, {}});
  ASSERT_TRUE(plans) << plans.error().message();
  ASSERT_FALSE(plans->empty());
  expect_sound(plans->front());
  double bytes = 0;
  for (const auto& stage : plans->front().split.stages) {
    bytes += static_cast<double>(stage.nodes.size() * stage.devices.size()) * 1024 * 1000;
  }
  EXPECT_LE(bytes, 8.5e6);
  EXPECT_NEAR(plans->front().period_seconds, 0.25, 1e-4);
}

TEST(GroupsTest, WhereReplicasShareOneCopyItIsOnEachCpu) {
  const auto groupings = device::groupings_of(usable_machine("numa:1 l3:1 core:4 pu:1"));
  const auto graph = chain_of_four(66'000);
  const auto does_not_scale = [](const device::GroupKind&) { return 1; };
  const auto plans = plans_of(graph, groupings, {costs(graph, groupings, "one", does_not_scale)},
                              {300e6, Copies({"one"})});
  ASSERT_TRUE(plans) << plans.error().message();
  ASSERT_FALSE(plans->empty());
  EXPECT_EQ(plans->front().split.stages.size(), 1U);
  EXPECT_EQ(plans->front().split.stages.front().devices.size(), 4U);
}

TEST(GroupsTest, FastAndSlowCoresRunWhatSuitsThem) {
  const auto groupings = device::groupings_of(fast_and_slow(), 200);
  const auto graph = chain_of_four(1);
  const auto first = costs(graph, groupings, "one", [](const device::GroupKind& kind) {
    return kind.kind == 1 ? 1.0 : kNever;
  });
  const auto second = costs(graph, groupings, "two", [](const device::GroupKind& kind) {
    return kind.kind == 0 ? 1.0 : kNever;
  });
  const auto plans = plans_of(graph, groupings, {first, second});
  ASSERT_TRUE(plans) << plans.error().message();
  ASSERT_FALSE(plans->empty());
  expect_sound(plans->front());
  EXPECT_NEAR(plans->front().period_seconds, 1.0 / 16, 1e-4);
  for (const auto& stage : plans->front().split.stages) {
    const bool fast = stage.devices.front().cpus.front() < 8;
    EXPECT_EQ(stage.parts.front().backend, fast ? "one" : "two");
  }
}

/// Two covers, each for one kind of core: together they need both kinds.
TEST(GroupsTest, WhereALinkIsSlowOneKindOfCoresDoesAll) {
  const auto groupings = device::groupings_of(fast_and_slow(), 200);
  const auto graph = chain_of_four(1);
  const auto only = [&](const char* backend, int kind) {
    return costs(graph, groupings, backend,
                 [=](const device::GroupKind& of) { return of.kind == kind ? 1.0 : kNever; });
  };
  const std::vector<GroupCosts> both{only("one", 1), only("two", 0)};
  HandingOver slow, close;
  for (auto* handing_over : {&slow, &close}) {
    for (const auto& from : groupings.kinds) {
      auto& row = handing_over->links.emplace_back();
      for (const auto& to : groupings.kinds) {
        const bool far = from.kind != to.kind && handing_over == &slow;
        row.emplace_back(cost::Link{far ? 10.0 : 1e-6, 1e9});
      }
    }
  }
  const auto near_plans = plans_of(graph, groupings, both, {}, close);
  ASSERT_TRUE(near_plans) << near_plans.error().message();
  EXPECT_NEAR(near_plans->front().period_seconds, 1.0 / 16, 1e-4);
  const auto plans = plans_of(graph, groupings, both, {}, slow);
  ASSERT_TRUE(plans) << plans.error().message();
  EXPECT_NEAR(plans->front().period_seconds, 1.0 / 8, 1e-4);
  expect_sound(plans->front());
}

TEST(GroupsTest, WhatWasNotMeasuredAnywhereHasNoPlan) {
  const auto groupings = device::groupings_of(usable_machine("numa:1 l3:1 core:2 pu:1"));
  const auto graph = chain_of_four(1);
  const auto plans =
      plans_of(graph, groupings, {costs(graph, groupings, "one", [](auto&) { return kNever; })});
  ASSERT_TRUE(plans) << plans.error().message();
  EXPECT_TRUE(plans->empty());
}

TEST(GroupsTest, ALinkThatCannotBeMeasuredIsNotedAndPlansAreMade) {
  const auto groupings = device::groupings_of(usable_machine("numa:2 l3:1 core:2 pu:1"));
  const auto broken = [](const device::Device& from,
                         const device::Device& to) -> Result<std::optional<cost::Link>> {
    if (to.cpus.front() >= 2) return internal_error("the process that measured it ended");
    return std::optional(cost::Link{1e-6 * from.cpus.front() + 1e-6, 1e9});
  };
  std::vector<std::string> notes;
  const auto made = links_between(groupings, broken, notes);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], testing::HasSubstr("the process that measured it ended"));
  EXPECT_THAT(notes[0], testing::HasSubstr("cpu:0"));
  ASSERT_EQ(made.links.size(), groupings.kinds.size());
  EXPECT_TRUE(made.links[0][0]) << "cpu:0 to cpu:1 is known";
  const auto graph = chain_of_four(1);
  const auto plans = plans_of(graph, groupings,
                              {costs(graph, groupings, "one", [](auto&) { return 1; })}, {}, made);
  ASSERT_TRUE(plans) << plans.error().message();
  EXPECT_FALSE(plans->empty());
}

TEST(GroupsTest, OfLinksThatThereWasNoTimeForNothingIsNoted) {
  const auto groupings = device::groupings_of(usable_machine("numa:2 l3:1 core:2 pu:1"));
  std::vector<std::string> notes;
  const auto made = links_between(
      groupings, [](auto&, auto&) { return Result(std::optional<cost::Link>()); }, notes);
  EXPECT_TRUE(notes.empty());
  EXPECT_FALSE(made.links[0][0]);
}

}  // namespace
}  // namespace penstock::tune
