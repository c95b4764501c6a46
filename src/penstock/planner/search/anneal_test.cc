// Chains with dear transfers: annealing moves them as a whole, and never above a device's memory.
#include "penstock/planner/search/anneal.h"

#include <algorithm>
#include <functional>

#include <gtest/gtest.h>

namespace penstock::planner {
namespace {

/// Chains of groups that take 1 each; a transfer within a chain takes 100.
Problem tight_chains(int chains, int length, int devices) {
  Problem problem;
  problem.types.push_back({.name = "device"});
  for (int d = 0; d < devices; ++d) problem.types[0].devices.push_back(concat("device", d));
  problem.modes.push_back({"mode", 0, 0});
  for (int g = 0; g < chains * length; ++g) {
    problem.groups.push_back({concat("g", g), {}, {1}, 0});
    if (g % length > 0) problem.values.push_back({concat("v", g), g - 1, {g}, 0, 100});
  }
  return problem;
}

TEST(AnnealTest, MovesTogetherWhatWouldPayForBeingParted) {
  constexpr int kChains = 8, kLength = 6, kDevices = 4;
  const auto instance = make_instance(tight_chains(kChains, kLength, kDevices), Partner::kHighest);
  ASSERT_TRUE(instance);
  const auto places = all_places(*instance);
  Loads loads(*instance, places, std::vector<int>(kChains * kLength, 0));
  Random random(1);
  const auto found = anneal(loads, {0.01, 1e-4, 100'000}, random, Budget(), {});
  EXPECT_EQ(found.period, kChains / kDevices * kLength);
}

TEST(AnnealTest, LeavesTogetherWhatDoesNotFitTheMemoryOfTheOther) {
  auto problem = tight_chains(4, 5, 2);
  for (auto& group : problem.groups) group.memory = 1;
  problem.types[0].memory = 15;
  const auto instance = make_instance(problem, Partner::kHighest);
  ASSERT_TRUE(instance);
  const auto places = all_places(*instance);
  std::vector<int> three_and_one(20, 0);
  for (std::size_t g = 15; g < 20; ++g) three_and_one[g] = 1;
  Loads loads(*instance, places, three_and_one);
  Random random(1);
  const auto found = anneal(loads, {0.01, 1e-4, 100'000}, random, Budget(), {});
  EXPECT_EQ(found.period, 10);
  EXPECT_TRUE(Loads(*instance, places, found.place_of).within_memory());
}

TEST(LoadsTest, KnowsAfterAnyMovesWhichValuesDevicesExchange) {
  const auto instance = make_instance(tight_chains(3, 5, 3), Partner::kHighest);
  ASSERT_TRUE(instance);
  const auto places = all_places(*instance);
  Loads loads(*instance, places, std::vector<int>(15, 0));
  EXPECT_TRUE(loads.cut_values().empty());
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    const int group = random.below(15), place = random.below(places.size());
    loads.move(group, place, loads.change(group, place));
    std::vector<int> cut;
    for (int v = 0; v < instance->values; ++v) {
      const auto device_of = [&](int g) { return loads.device_of(g); };
      const auto pins = instance->pins[v];
      if (std::ranges::adjacent_find(pins, std::ranges::not_equal_to(), device_of) != pins.end()) {
        cut.push_back(v);
      }
    }
    auto known = loads.cut_values();
    std::ranges::sort(known);
    ASSERT_EQ(known, cut) << "after move " << i;
  }
}

}  // namespace
}  // namespace penstock::planner
