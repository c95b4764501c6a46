// What ways share, judged by invented numbers and measured in an invented network.
#include "penstock/hosts/sharing.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/hosts/survey.h"

namespace penstock::hosts {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;
using ::testing::Pair;

constexpr auto kOut = Direction::kOut, kIn = Direction::kIn;

Rates rates(double one, double other, double together) {
  return {one, other, together};
}

TEST(SharingTest, IsWhereTwoHaveTogetherNoMoreThanAQuarterAboveOneAlone) {
  EXPECT_TRUE(rates(25e6, 25e6, 25e6).shared());
  EXPECT_TRUE(rates(25e6, 20e6, 31.25e6).shared());
  EXPECT_FALSE(rates(25e6, 25e6, 32e6).shared());
  EXPECT_FALSE(rates(25e6, 25e6, 50e6).shared());
}

TEST(SharingTest, GivesTheWireWhatItWasSeenToCarry) {
  EXPECT_EQ(rates(25e6, 20e6, 28e6).wire(), 28e6);
  EXPECT_EQ(rates(25e6, 20e6, 23e6).wire(), 25e6);  // One alone had more.
  EXPECT_EQ(rates(25e6, 20e6, 44e6).wire(), planner::kInfinite);
}

Hosts of(int count) {
  Hosts hosts;
  for (int i = 0; i < count; ++i) {
    auto& host = hosts.hosts.emplace_back();
    host.name = std::string(1, static_cast<char>('a' + i));
    host.address = host.name + ":1";
    host.cpus = 1;
  }
  return hosts;
}

/// Ways out of the caller.
MeasuredLinks out(const std::vector<double>& bandwidths) {
  MeasuredLinks links;
  for (std::size_t i = 0; i < bandwidths.size(); ++i) {
    links.ways[{kCaller, static_cast<int>(i)}] = {1e-3, bandwidths[i]};
  }
  return links;
}

TEST(SharingTest, IsTriedWithTheTwoFastestPeers) {
  EXPECT_THAT(peers_to_try(of(3), out({1e6, 3e6, 2e6}), kCaller, kOut), Optional(Pair(1, 2)));
  EXPECT_FALSE(peers_to_try(of(3), out({1e6, 3e6, 2e6}), kCaller, kIn));  // Nothing is known.
  EXPECT_FALSE(peers_to_try(of(1), out({1e6}), kCaller, kOut));
}

TEST(SharingTest, IsNotTriedWhereASlowPeerWouldTellNothing) {
  EXPECT_FALSE(peers_to_try(of(2), out({1e6, 3e6}), kCaller, kOut));
}

TEST(SharingTest, IsNotTakenForThatOfAnUplinkThatTheFileNames) {
  auto hosts = of(3);
  hosts.uplinks.push_back({"far", {}});
  hosts.hosts[0].uplink = hosts.hosts[1].uplink = "far";
  EXPECT_THAT(peers_to_try(hosts, out({3e6, 3e6, 2e6}), kCaller, kOut), Optional(Pair(1, 2)));
  EXPECT_FALSE(peers_to_try(hosts, out({3e6, 3e6}), kCaller, kOut));
}

/// Of hosts: both directions.
struct InventedUplink {
  std::set<int> hosts;
  double bandwidth;
};

/// Cables and uplinks that transfers share evenly. Those that have begun are under way until all
/// are asked for.
class InventedNetwork {
 public:
  std::map<std::pair<int, Direction>, double> cables;  ///< Bytes a second; others: 100 MB/s.
  std::vector<InventedUplink> uplinks;
  int firewalled = -2;  ///< The host that no other may call.
  int absent = -2;      ///< The host that cannot be reached.
  int lying = -1;       ///< The trial, from 0, in which all that goes on at once shares something.
  int transfers = 0;
  double longest = 0;

  Worker::Rate begin(int from, int to, double seconds) {
    ++transfers;
    longest = std::max(longest, seconds);
    under_way_.emplace_back(from, to);
    if (under_way_.size() == 2) ++trials_;
    return [this, from, to]() -> Result<double> {
      double rate = std::min(part(from, kOut), part(to, kIn));
      if (under_way_.size() == 2 && trials_ == lying + 1) rate /= 2;
      for (const auto& uplink : uplinks) rate = std::min(rate, part({from, to}, uplink));
      if (++asked_ == under_way_.size()) {
        under_way_.clear();
        asked_ = 0;
      }
      return rate;
    };
  }

 private:
  double part(int host, Direction direction) const {
    const auto users = std::ranges::count_if(under_way_, [&](const auto& ends) {
      return (direction == kOut ? ends.first : ends.second) == host;
    });
    const auto found = cables.find({host, direction});
    return found == cables.end() ? 100e6 : found->second / static_cast<double>(users);
  }

  double part(Ends way, const InventedUplink& uplink) const {
    const auto passes = [&](Ends ends, Direction direction) {
      const auto [inner, outer] = ends_of(ends.first, ends.second, direction);
      return uplink.hosts.contains(inner) && !uplink.hosts.contains(outer);
    };
    double part = planner::kInfinite;
    for (const auto direction : {kOut, kIn}) {
      if (!passes(way, direction)) continue;
      const auto users = std::ranges::count_if(
          under_way_, [&](const auto& ends) { return passes(ends, direction); });
      part = std::min(part, uplink.bandwidth / static_cast<double>(users));
    }
    return part;
  }

  std::vector<Ends> under_way_;
  std::size_t asked_ = 0;
  int trials_ = 0;
};

class InventedWorker final : public Worker {
 public:
  InventedWorker(InventedNetwork& network, const std::vector<std::string>& addresses, int host)
      : network_(network), addresses_(addresses), host_(host) {}
  [[nodiscard]] const Description& description() const override { return description_; }
  Result<WayBothWays> way() override { return between(kCaller, host_); }
  Result<WayBothWays> way_to(const std::string& address) override {
    return between(host_, number(address));
  }
  Rate moving(bool there, double seconds) override {
    return there ? network_.begin(kCaller, host_, seconds)
                 : network_.begin(host_, kCaller, seconds);
  }
  Rate moving_to(const std::string& address, bool there, double seconds) override {
    const int other = number(address);
    if (network_.firewalled == other) {
      return []() -> Result<double> { return make_error(Code::kUnavailable, "no way there"); };
    }
    return there ? network_.begin(host_, other, seconds) : network_.begin(other, host_, seconds);
  }
  Result<JobEnd> run(const std::string&, const std::vector<JobFile>&,
                     const std::function<bool()>&) override {
    return make_error(Code::kUnimplemented, "measures nothing but links");
  }

 private:
  Result<WayBothWays> between(int from, int to) {
    PENSTOCK_TRY(const double there, network_.begin(from, to, 0)());
    PENSTOCK_TRY(const double back, network_.begin(to, from, 0)());
    network_.transfers -= 2;
    return WayBothWays{1e-3, there, back, MessageCosts{50e-6, 1e-9, 2e-9}};
  }
  int number(const std::string& address) const {
    return static_cast<int>(std::ranges::find(addresses_, address) - addresses_.begin());
  }

  InventedNetwork& network_;
  const std::vector<std::string> addresses_;
  const int host_;
  const Description description_;
};

Survey survey_of(InventedNetwork& network, const Hosts& hosts) {
  int next = 0;
  return survey(hosts,
                [&](const Host&,
                    const std::vector<std::string>& addresses) -> Result<std::unique_ptr<Worker>> {
                  if (next == network.absent) {
                    ++next;
                    return make_error(Code::kUnavailable, "nobody listens");
                  }
                  std::unique_ptr<Worker> made =
                      std::make_unique<InventedWorker>(network, addresses, next++);
                  return made;
                });
}

TEST(SharingTest, IsMeasuredForEachDirectionOfEachHost) {
  InventedNetwork network;
  network.cables = {{{0, kOut}, 25e6}, {{kCaller, kIn}, 50e6}};
  const auto made = survey_of(network, of(3));
  EXPECT_TRUE(made.failed.empty());
  // All that one sends goes by its cable, all that this machine gets by another; others are free.
  for (const auto& [end, bandwidth] : made.links.wires) {
    const auto cable = network.cables.find(end);
    EXPECT_EQ(bandwidth, cable == network.cables.end() ? planner::kInfinite : cable->second)
        << end.first << (end.second == kOut ? " out" : " in");
  }
  EXPECT_EQ(made.links.wires.size(), 8U);
  // Each alone, and both: for each direction of each host, and from two hosts to the other two, but
  // for one pair, as a way by the slow cable tells nothing beside a fast one.
  EXPECT_EQ(network.transfers, 8 * 4 + 5 * 4);
  EXPECT_LE(network.longest, 2);
}

TEST(SharingTest, IsUnknownAndNoFailureOfAHostThatOthersCannotCall) {
  InventedNetwork network;
  network.firewalled = 0;
  const auto made = survey_of(network, of(3));
  EXPECT_TRUE(made.failed.empty());
  EXPECT_FALSE(made.links.wires.contains({0, kOut}));
  EXPECT_TRUE(made.links.wires.contains({kCaller, kIn}));
}

/// Hosts of the groups that a network was seen to have, by direction.
std::vector<std::set<int>> groups(const MeasuredLinks& links, Direction direction) {
  std::vector<std::set<int>> found;
  for (const auto& [pair, bandwidth] : links.uplinks) {
    const auto& [hosts, way] = pair;
    if (way != direction || bandwidth == planner::kInfinite) continue;
    auto group =
        std::ranges::find_if(found, [&](auto& each) { return each.contains(hosts.first); });
    if (group == found.end()) group = found.insert(found.end(), std::set<int>{hosts.first});
    group->insert(hosts.second);
  }
  return found;
}

TEST(UplinkTest, IsFoundByTransfersWhoseHostsAllDiffer) {
  InventedNetwork network;
  network.uplinks = {{{2, 3, 4}, 100e6}};
  const auto made = survey_of(network, of(6));
  EXPECT_TRUE(made.failed.empty());
  for (const auto direction : {kOut, kIn}) {
    EXPECT_THAT(groups(made.links, direction), ElementsAre(std::set{2, 3, 4}));
  }
  for (const auto& [pair, bandwidth] : made.links.uplinks) {
    EXPECT_TRUE(bandwidth == 100e6 || bandwidth == planner::kInfinite);
  }
  // No host's own wire is taken to be shared by peers that are behind the uplink.
  for (const auto& [end, bandwidth] : made.links.wires) {
    EXPECT_EQ(bandwidth, planner::kInfinite) << end.first;
  }
}

TEST(UplinkTest, IsNotTakenFromOneTrialThatLies) {
  for (int trial = 0; trial < 84; ++trial) {
    InventedNetwork network;
    network.lying = trial;
    const auto links = survey_of(network, of(7)).links;
    EXPECT_THAT(groups(links, kOut), ElementsAre()) << trial;
    EXPECT_THAT(groups(links, kIn), ElementsAre()) << trial;
  }
}

TEST(UplinkTest, IsKnownOfEachTwoOfItsHosts) {
  InventedNetwork network;
  network.uplinks = {{{2, 3, 4}, 100e6}};
  const auto links = survey_of(network, of(6)).links;
  for (const auto& pair : {Ends(2, 3), Ends(2, 4), Ends(3, 4)}) {
    EXPECT_EQ(links.uplinks.at({pair, kOut}), 100e6) << pair.first << " " << pair.second;
  }
}

TEST(UplinkTest, StaysWhatItWasWhereNothingIsTried) {
  InventedNetwork network;
  network.absent = 2;  // Two hosts and the caller: no four ends.
  const auto made = survey_of(network, of(3));
  EXPECT_TRUE(made.links.uplinks.empty());
  for (const auto& [end, bandwidth] : made.links.wires) EXPECT_NE(end.first, 2);
}

TEST(SurveyTest, EndsWhereItIsStopped) {
  InventedNetwork network;
  const auto reach =
      [&](const Host&,
          const std::vector<std::string>& addresses) -> Result<std::unique_ptr<Worker>> {
    std::unique_ptr<Worker> made = std::make_unique<InventedWorker>(network, addresses, 0);
    return made;
  };
  const auto made = survey(of(2), reach, {.stop = [] { return true; }});
  EXPECT_EQ(network.transfers, 0);
  for (const auto& host : made.hosts) EXPECT_EQ(host.error->code, Code::kCancelled);
}

TEST(UplinkTest, IsThatOfTheFarHostsWhereOthersDoNotShareIt) {
  InventedNetwork network;
  network.cables = {{{2, kIn}, 200e6}, {{3, kIn}, 200e6}};
  network.uplinks = {{{2, 3}, 100e6}};
  const auto made = survey_of(network, of(5));
  EXPECT_THAT(groups(made.links, kOut), ElementsAre(std::set{2, 3}));
  EXPECT_THAT(groups(made.links, kIn), ElementsAre(std::set{2, 3}));
}

TEST(UplinkTest, BetweenTwoSitesIsCountedOnceForEachDirection) {
  InventedNetwork network;
  network.uplinks = {{{kCaller, 0}, 10e6}};
  const auto hosts = of(3);
  const auto made = survey_of(network, hosts);
  const Network found(hosts, made.links);
  for (const auto& [from, to] : {Ends(kCaller, 1), Ends(0, 2), Ends(1, 0), Ends(2, kCaller)}) {
    const auto wires = found.wires(from, to);
    ASSERT_EQ(wires.size(), 3U) << from << " " << to;
    EXPECT_EQ(found.all_wires()[static_cast<std::size_t>(wires[1])].bandwidth, 10e6);
  }
  EXPECT_EQ(found.wires(1, 2).size(), 2U);
  EXPECT_EQ(found.wires(kCaller, 0).size(), 2U);
}

TEST(UplinkTest, IsNotPassedByAWayThatHasClearlyMore) {
  // Host 2 is beside 0 and 1, and was never tried: its ways are faster than what they share.
  MeasuredLinks links;
  links.uplinks = {{{{0, 1}, kOut}, 10e6}};
  links.ways = {{{0, 2}, {0, 100e6}}, {{0, kCaller}, {0, 9e6}}};
  const auto hosts = of(3);
  const Network network(hosts, links);
  EXPECT_EQ(network.wires(0, 2).size(), 2U);
  EXPECT_EQ(network.wires(0, kCaller).size(), 3U);
  EXPECT_EQ(network.wires(0, 1).size(), 2U);
}

TEST(UplinkTest, ThatTheFileNamesIsNotMeasured) {
  auto hosts = of(3);
  hosts.uplinks.push_back({"far", {}});
  hosts.hosts[1].uplink = hosts.hosts[2].uplink = "far";
  InventedNetwork network;
  network.uplinks = {{{1, 2}, 50e6}};
  EXPECT_THAT(groups(survey_of(network, hosts).links, kOut), ElementsAre());
}

TEST(SharingTest, IsKeptUntilItIsMeasuredAgain) {
  const auto hosts = of(2);
  auto database = *cost::Database::in_memory();
  MeasuredLinks measured;
  measured.wires = {{{0, kOut}, 25e6}, {{kCaller, kIn}, planner::kInfinite}};
  measured.uplinks = {{{{0, 1}, kOut}, 5e6}, {{{kCaller, 1}, kIn}, planner::kInfinite}};
  ASSERT_TRUE(keep_links(database, hosts, measured));
  EXPECT_EQ(known_links(database, hosts).wires, measured.wires);
  measured.messages = {{0, {50e-6, 1e-9, 0}}};
  ASSERT_TRUE(keep_links(database, hosts, measured));
  const auto messages = known_links(database, hosts).messages;
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_DOUBLE_EQ(messages.at(0).message, 50e-6);
  EXPECT_DOUBLE_EQ(messages.at(0).byte_in, 1e-9);
  EXPECT_EQ(messages.at(0).byte_out, 0);
  EXPECT_EQ(known_links(database, hosts).uplinks, measured.uplinks);
  auto turned = hosts;  // Pairs are kept whichever of their hosts comes first.
  std::swap(turned.hosts[0], turned.hosts[1]);
  EXPECT_EQ(known_links(database, turned).uplinks.at({{0, 1}, kOut}), 5e6);
  measured.wires = {{{0, kOut}, planner::kInfinite}};
  ASSERT_TRUE(keep_links(database, hosts, measured));
  EXPECT_EQ(known_links(database, hosts).wires.at({0, kOut}), planner::kInfinite);
}

}  // namespace
}  // namespace penstock::hosts
