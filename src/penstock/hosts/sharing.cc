// Picks two peers of each host, has bytes moved to each alone and to both, and compares.
#include "penstock/hosts/sharing.h"

#include <algorithm>

namespace penstock::hosts {
std::optional<std::pair<int, int>> peers_to_try(const Hosts& hosts, const MeasuredLinks& links,
                                                int host, Direction direction) {
  const Network network(hosts, links);
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
  for (std::size_t i = 1; i < peers.size() && comparable(peers[i].first, most); ++i) {
    const int peer = peers[i].second;
    // Both pass the host's own.
    if (network.wires_in_common(ends, ends_of(host, peer, direction)) > 1) continue;
    return std::pair(fastest, peer);
  }
  return std::nullopt;
}

std::vector<Sharing> measure_sharing(const Hosts& hosts, const MeasuredLinks& links,
                                     const WorkerOf& worker, const SurveyLimits& limits,
                                     std::vector<Error>& failed) {
  const int count = static_cast<int>(hosts.hosts.size());
  std::vector<Sharing> seen;
  for (int host = kCaller; host < count; ++host) {
    if (host != kCaller && worker(host) == nullptr) continue;
    for (const auto direction : {Direction::kOut, Direction::kIn}) {
      const auto peers = peers_to_try(hosts, links, host, direction);
      if (!peers || limits.stopped()) continue;
      // The peers' workers are asked, as a worker moves bytes for one at a time.
      const auto transfer = [&](int peer) {
        return Transfer{ends_of(host, peer, direction), peer == kCaller ? host : peer};
      };
      auto rates = compare(hosts, links, worker, transfer(peers->first), transfer(peers->second));
      if (rates) {
        seen.push_back({{host}, direction, peers->first, peers->second, *rates});
      } else if (rates.error().code != Code::kUnavailable) {
        // A peer asks the host, which its firewall may forbid although the host reaches the peer.
        failed.push_back(std::move(rates).error());
      }
    }
  }
  return seen;
}

}  // namespace penstock::hosts
