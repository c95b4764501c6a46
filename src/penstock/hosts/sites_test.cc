// Sites told from invented trials: of random networks, of few hosts, and with trials that lie.
#include "penstock/hosts/sites.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::hosts {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

bool shared_by(const std::vector<std::set<int>>& sites, Ends one, Ends other) {
  return std::ranges::any_of(sites, [&](const std::set<int>& site) {
    const bool leave = site.contains(one.first) && site.contains(other.first) &&
                       !site.contains(one.second) && !site.contains(other.second);
    const bool enter = site.contains(one.second) && site.contains(other.second) &&
                       !site.contains(one.first) && !site.contains(other.first);
    return leave || enter;
  });
}

/// Every two transfers of `count` hosts whose ends all differ.
std::vector<PairTrial> all_trials(int count, const std::vector<std::set<int>>& sites) {
  std::vector<PairTrial> trials;
  for (int a = 0; a < count; ++a) {
    for (int b = a + 1; b < count; ++b) {
      for (int c = 0; c < count; ++c) {
        for (int d = 0; d < count; ++d) {
          if (std::set{a, b, c, d}.size() < 4) continue;
          trials.push_back({{a, c}, {b, d}, shared_by(sites, {a, c}, {b, d})});
        }
      }
    }
  }
  return trials;
}

std::vector<int> ends(int count) {
  std::vector<int> all;
  for (int i = 0; i < count; ++i) all.push_back(i);
  return all;
}

/// What the sites say of the trial.
bool foretold(const std::vector<Site>& sites, const PairTrial& trial) {
  return std::ranges::any_of(sites, [&](const Site& site) {
    const std::vector<std::set<int>> alone{site.hosts};
    const bool leave = site.hosts.contains(trial.one.first);
    return shared_by(alone, trial.one, trial.other) && (leave ? site.shares_out : site.shares_in);
  });
}

TEST(SitesTest, AreNoneWhereNothingIsShared) {
  EXPECT_THAT(sites_of(ends(5), all_trials(5, {})), IsEmpty());
  EXPECT_THAT(sites_of({}, {}), IsEmpty());
}

TEST(SitesTest, AreFoundWhicheverHostsComeFirst) {
  for (const auto& site : {std::set{0, 1, 2}, std::set{1, 3}, std::set{2, 3, 4}}) {
    const auto found = sites_of(ends(7), all_trials(7, {site}));
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found.front().hosts, site);
  }
}

TEST(SitesTest, MayBeSeveral) {
  const auto found = sites_of(ends(7), all_trials(7, {{0, 4}, {1, 2, 5}}));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].hosts, (std::set{1, 2, 5}));  // It explains more.
  EXPECT_EQ(found[1].hosts, (std::set{0, 4}));
}

TEST(SitesTest, OfFourHostsExplainTheirTrials) {
  // Two of them behind an uplink, or the other two: the same.
  const auto trials = all_trials(4, {{2, 3}});
  const auto found = sites_of(ends(4), trials);
  for (const auto& trial : trials) EXPECT_EQ(foretold(found, trial), trial.shared);
}

TEST(SitesTest, BearATrialThatLies) {
  auto trials = all_trials(7, {{1, 2, 4}});
  trials.front().shared = !trials.front().shared;
  trials[40].shared = !trials[40].shared;
  const auto found = sites_of(ends(7), trials);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().hosts, (std::set{1, 2, 4}));
}

TEST(SitesTest, ForetellEveryTrialOfRandomNetworks) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const int count = 5 + static_cast<int>(random() % 4);
    std::vector<std::set<int>> sites(3);
    for (int host = 0; host < count; ++host) sites[random() % 3].insert(host);
    // Hosts of the last one are in none, and a site is fewer than half of all: of two halves either
    // explains as much.
    sites.pop_back();
    std::erase_if(sites, [&](const auto& site) {
      return site.size() < 2 || 2 * static_cast<int>(site.size()) >= count;
    });
    const auto trials = all_trials(count, sites);
    const auto found = sites_of(ends(count), trials);
    for (const auto& trial : trials) EXPECT_EQ(foretold(found, trial), trial.shared);
  }
}

}  // namespace
}  // namespace penstock::hosts
