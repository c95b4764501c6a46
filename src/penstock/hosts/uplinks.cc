// Has bytes moved from two hosts to two others at once, and groups hosts that share an uplink.
#include <algorithm>

#include "penstock/hosts/sharing.h"

namespace penstock::hosts {
namespace {

class Search {
 public:
  Search(const Hosts& hosts, MeasuredLinks& links, const WorkerOf& worker,
         std::vector<Error>& failed)
      : hosts_(hosts), links_(links), worker_(worker), failed_(failed) {}

  std::vector<Sharing> run() {
    for (const auto direction : {Direction::kOut, Direction::kIn}) {
      std::vector<int> firsts;  // Of hosts that share one uplink each, or none.
      for (int host = kCaller; host < static_cast<int>(hosts_.hosts.size()); ++host) {
        if (host != kCaller && worker_(host) == nullptr) continue;
        const auto shares = [&](int first) { return share({first, host}, direction); };
        if (std::ranges::none_of(firsts, shares)) firsts.push_back(host);
      }
    }
    return std::move(seen_);
  }

 private:
  bool share(Ends pair, Direction direction) {
    std::optional<Sharing> last;
    for (const auto& peers : far_ends_to_try(hosts_, links_, pair, direction)) {
      const auto transfer = [&](int host, int peer) {
        // Of two hosts the one before the other was asked to measure the way between them.
        const int before = std::min(host, peer);
        return Transfer{ends_of(host, peer, direction),
                        before == kCaller ? std::max(host, peer) : before};
      };
      auto rates = compare(hosts_, links_, worker_, transfer(pair.first, peers.first),
                           transfer(pair.second, peers.second));
      if (!rates) {
        failed_.push_back(std::move(rates).error());
        return false;
      }
      last = {{pair.first, pair.second}, direction, peers.first, peers.second, *rates};
      if (!rates->shared()) break;
    }
    if (!last) return false;
    seen_.push_back(*last);
    links_.uplinks[{pair, direction}] = last->rates.wire();
    return last->rates.shared();
  }

  const Hosts& hosts_;
  MeasuredLinks& links_;
  const WorkerOf& worker_;
  std::vector<Error>& failed_;
  std::vector<Sharing> seen_;
};

}  // namespace

std::vector<std::pair<int, int>> far_ends_to_try(const Hosts& hosts, const MeasuredLinks& links,
                                                 Ends pair, Direction direction) {
  const Network network(hosts, links);
  const int count = static_cast<int>(hosts.hosts.size());
  std::vector<std::pair<double, std::pair<int, int>>> found;
  for (int one = kCaller; one < count; ++one) {
    for (int other = kCaller; other < count; ++other) {
      if (one == pair.second || other == pair.first || one == other) continue;
      const auto first = ends_of(pair.first, one, direction);
      const auto second = ends_of(pair.second, other, direction);
      const auto first_way = links.ways.find(first), second_way = links.ways.find(second);
      if (first_way == links.ways.end() || second_way == links.ways.end()) continue;
      const double a = first_way->second.bandwidth, b = second_way->second.bandwidth;
      if (!comparable(a, b) || network.wires_in_common(first, second) > 0) continue;
      found.push_back({std::min(a, b), {one, other}});
    }
  }
  std::ranges::stable_sort(found, std::greater(), [](const auto& each) { return each.first; });
  std::vector<std::pair<int, int>> ends;
  for (const auto& [least, peers] : found) {
    const auto mirrored = std::pair(peers.second, peers.first);
    if (!ends.empty() && ends.front() == mirrored) continue;
    ends.push_back(peers);
    if (ends.size() == 2) break;
  }
  return ends;
}

std::vector<Sharing> measure_uplinks(const Hosts& hosts, MeasuredLinks& links,
                                     const WorkerOf& worker, std::vector<Error>& failed) {
  return Search(hosts, links, worker, failed).run();
}

}  // namespace penstock::hosts
