// Kinds and their counts on made-up machines with SMT siblings, unlike cores and two packages.
#include "penstock/device/group_kinds.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/made_up_topologies.h"

namespace penstock::device {
namespace {

using testing::ElementsAre;

/// Use, kind, width and how many there are room for.
std::vector<std::tuple<std::size_t, int, int, std::size_t>> summary(const Groupings& all) {
  std::vector<std::tuple<std::size_t, int, int, std::size_t>> kinds;
  for (const auto& kind : all.kinds) {
    kinds.emplace_back(kind.use, kind.kind, kind.width, kind.devices.size());
  }
  return kinds;
}

/// The devices of each grouping are as many of each kind, and as wide, as its counts say.
void expect_counts_of_devices(const Groupings& all) {
  ASSERT_EQ(all.counts.size(), all.groupings.size());
  for (std::size_t i = 0; i < all.groupings.size(); ++i) {
    const auto& devices = all.groupings[i].devices;
    ASSERT_EQ(std::accumulate(all.counts[i].begin(), all.counts[i].end(), 0),
              static_cast<int>(devices.size()))
        << all.groupings[i].text;
    std::size_t device = 0;
    for (std::size_t kind = 0; kind < all.kinds.size(); ++kind) {
      EXPECT_LE(all.counts[i][kind], static_cast<int>(all.kinds[kind].devices.size()));
      for (int n = 0; n < all.counts[i][kind]; ++n) {
        EXPECT_EQ(devices[device++].cpus.size(), static_cast<std::size_t>(all.kinds[kind].width));
      }
    }
  }
}

TEST(GroupKindsTest, TwoCoresHaveTwoKindsAndTwoGroupings) {
  const auto all = groupings_of(usable_machine("numa:1 l3:1 l2:2 core:1 pu:1"));
  EXPECT_THAT(summary(all), ElementsAre(std::tuple(0, 0, 1, 2), std::tuple(0, 0, 2, 1)));
  EXPECT_THAT(all.counts, ElementsAre(ElementsAre(2, 0), ElementsAre(0, 1)));
}

TEST(GroupKindsTest, EachUseOfSiblingsHasKindsOfItsOwn) {
  const auto all = groupings_of(usable_machine("numa:1 l3:1 l2:4 core:1 pu:2"));
  EXPECT_THAT(summary(all),
              ElementsAre(std::tuple(0, 0, 1, 8), std::tuple(0, 0, 2, 4), std::tuple(0, 0, 4, 2),
                          std::tuple(0, 0, 8, 1), std::tuple(1, 0, 1, 4), std::tuple(1, 0, 2, 2),
                          std::tuple(1, 0, 4, 1), std::tuple(2, 0, 1, 2), std::tuple(2, 0, 2, 1)));
  expect_counts_of_devices(all);
}

TEST(GroupKindsTest, PowerfulCoresStandBeforeSlowOnesAndAllTogetherLast) {
  const auto all = groupings_of(fast_and_slow());
  ASSERT_GE(all.kinds.size(), 9U);
  EXPECT_EQ(all.kinds[0].kind, 1);
  EXPECT_EQ(all.kinds[4].kind, 0);
  EXPECT_EQ(all.kinds[8].kind, -1);
  EXPECT_EQ(all.kinds[8].width, 16);
  EXPECT_EQ(to_string(all.kinds[4].devices.front()), "cpu:8");
  expect_counts_of_devices(all);
}

TEST(GroupKindsTest, OfTwoNodesThereAreAllSumsOfPowersOfTwo) {
  const auto all = groupings_of(usable_machine("pack:2 numa:1 l3:1 core:32 pu:1"));
  const auto of_all =
      std::ranges::count_if(all.counts, [](const auto& counts) { return counts[7] == 0; });
  EXPECT_GE(of_all, 1828);  // So many ways to write 64.
  expect_counts_of_devices(all);
}

}  // namespace
}  // namespace penstock::device
