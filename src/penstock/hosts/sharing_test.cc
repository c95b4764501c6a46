// What ways share, judged by invented numbers and measured in an invented network.
#include "penstock/hosts/sharing.h"

#include <algorithm>
#include <map>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/hosts/survey.h"

namespace penstock::hosts {
namespace {

using ::testing::Optional;
using ::testing::Pair;

constexpr auto kOut = Direction::kOut, kIn = Direction::kIn;

Sharing rates(double one, double other, double together) {
  return {kCaller, kOut, 0, 1, one, other, together};
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

/// Cables that transfers share evenly. Those that have begun are under way until all are asked for.
class InventedNetwork {
 public:
  std::map<std::pair<int, Direction>, double> cables;  ///< Bytes a second; others: 100 MB/s.
  int firewalled = -2;                                 ///< The host that no other may call.
  int transfers = 0;
  double longest = 0;

  Worker::Rate begin(int from, int to, double seconds) {
    ++transfers;
    longest = std::max(longest, seconds);
    under_way_.emplace_back(from, to);
    return [this, from, to]() -> Result<double> {
      const double rate = std::min(part(from, kOut), part(to, kIn));
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

  std::vector<std::pair<int, int>> under_way_;
  std::size_t asked_ = 0;
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
    return WayBothWays{1e-3, there, back};
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
  return survey(
      hosts,
      [&](const Host&,
          const std::vector<std::string>& addresses) -> Result<std::unique_ptr<Worker>> {
        std::unique_ptr<Worker> made = std::make_unique<InventedWorker>(network, addresses, next++);
        return made;
      },
      true);
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
  EXPECT_EQ(network.transfers, 8 * 4);  // Each alone, and both; so for each host, not each pair.
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

TEST(SharingTest, IsKeptUntilItIsMeasuredAgain) {
  const auto hosts = of(2);
  auto database = *cost::Database::in_memory();
  MeasuredLinks measured;
  measured.wires = {{{0, kOut}, 25e6}, {{kCaller, kIn}, planner::kInfinite}};
  ASSERT_TRUE(keep_links(database, hosts, measured));
  EXPECT_EQ(known_links(database, hosts).wires, measured.wires);
  measured.wires = {{{0, kOut}, planner::kInfinite}};
  ASSERT_TRUE(keep_links(database, hosts, measured));
  EXPECT_EQ(known_links(database, hosts).wires.at({0, kOut}), planner::kInfinite);
}

}  // namespace
}  // namespace penstock::hosts
