// Picks two peers of each host, has bytes moved to each alone and to both, and compares.
#include "penstock/hosts/sharing.h"

#include <algorithm>
#include <utility>

namespace penstock::hosts {
namespace {

constexpr double kAsOne = 1.25;      // Times one alone: apart it would be 1.5 at least.
constexpr double kComparable = 0.5;  // Of the faster one's bandwidth.
constexpr double kBytes = 4 << 20;   // Of the slower one: 64 pieces to be counted.
constexpr double kShortestTransfer = 0.25, kLongestTransfer = 2;  // Seconds.

using Ends = std::pair<int, int>;

Ends ends_of(int host, int peer, Direction direction) {
  return direction == Direction::kOut ? Ends(host, peer) : Ends(peer, host);
}

/// Wires besides the host's own that both ways pass.
bool meet_elsewhere(const Network& network, Ends one, Ends other) {
  const auto wires = network.wires(one.first, one.second);
  const auto others = network.wires(other.first, other.second);
  return std::ranges::count_if(
             wires, [&](int wire) { return std::ranges::find(others, wire) != others.end(); }) > 1;
}

class Trial {
 public:
  Trial(const Hosts& hosts, const std::function<Worker*(int)>& worker, Sharing& about,
        double seconds)
      : hosts_(hosts), worker_(worker), about_(about), seconds_(seconds) {}

  Status run() {
    PENSTOCK_TRY(about_.one_alone, begin(about_.one)());
    PENSTOCK_TRY(about_.other_alone, begin(about_.other)());
    const auto one = begin(about_.one), other = begin(about_.other);
    const auto first = one(), second = other();
    PENSTOCK_CHECK_OK(first);
    PENSTOCK_CHECK_OK(second);
    about_.together = *first + *second;
    return {};
  }

 private:
  /// Between the host and a peer. It is the peer's worker that is asked, as one worker moves bytes
  /// for one at a time; where this machine is the peer it asks the host's.
  [[nodiscard]] Worker::Rate begin(int peer) const {
    const bool out = about_.direction == Direction::kOut;
    if (about_.host == kCaller) return worker_(peer)->moving(out, seconds_);
    if (peer == kCaller) return worker_(about_.host)->moving(!out, seconds_);
    const auto& address = hosts_.hosts[static_cast<std::size_t>(about_.host)].address;
    return worker_(peer)->moving_to(address, !out, seconds_);
  }

  const Hosts& hosts_;
  const std::function<Worker*(int)>& worker_;
  Sharing& about_;
  const double seconds_;
};

}  // namespace

bool Sharing::shared() const {
  return together <= kAsOne * std::max(one_alone, other_alone);
}

double Sharing::wire() const {
  // What one has alone the wire carries in any case.
  return shared() ? std::max({one_alone, other_alone, together}) : planner::kInfinite;
}

std::optional<std::pair<int, int>> peers_to_try(const Hosts& hosts, const MeasuredLinks& links,
                                                int host, Direction direction) {
  const Network network(hosts, {});
  const int count = static_cast<int>(hosts.hosts.size());
  std::vector<std::pair<double, int>> peers;
  for (int peer = kCaller; peer < count; ++peer) {
    const auto way = links.ways.find(ends_of(host, peer, direction));
    if (way != links.ways.end()) peers.emplace_back(way->second.bandwidth, peer);
  }
  std::ranges::sort(peers, std::greater());
  if (peers.empty()) return std::nullopt;
  const auto [most, fastest] = peers.front();
  const auto ends = ends_of(host, fastest, direction);
  for (std::size_t i = 1; i < peers.size() && peers[i].first >= kComparable * most; ++i) {
    const int peer = peers[i].second;
    if (meet_elsewhere(network, ends, ends_of(host, peer, direction))) continue;
    return std::pair(fastest, peer);
  }
  return std::nullopt;
}

std::vector<Sharing> measure_sharing(const Hosts& hosts, const MeasuredLinks& links,
                                     const std::function<Worker*(int)>& worker,
                                     std::vector<Error>& failed) {
  const int count = static_cast<int>(hosts.hosts.size());
  std::vector<Sharing> seen;
  for (int host = kCaller; host < count; ++host) {
    if (host != kCaller && worker(host) == nullptr) continue;
    for (const auto direction : {Direction::kOut, Direction::kIn}) {
      const auto peers = peers_to_try(hosts, links, host, direction);
      if (!peers) continue;
      Sharing about{.host = host, .direction = direction};
      about.one = peers->first;
      about.other = peers->second;
      const double slower = links.ways.at(ends_of(host, about.other, direction)).bandwidth;
      const double seconds = std::clamp(kBytes / slower, kShortestTransfer, kLongestTransfer);
      auto done = Trial(hosts, worker, about, seconds).run();
      if (done) seen.push_back(about);
      // A peer asks the host, which its firewall may forbid although the host reaches the peer.
      if (!done && done.error().code != Code::kUnavailable) {
        failed.push_back(std::move(done).error());
      }
    }
  }
  return seen;
}

}  // namespace penstock::hosts
