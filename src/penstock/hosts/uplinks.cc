// Has two hosts send to two others at once, many times, and tells from it who shares an uplink.
#include <algorithm>
#include <random>
#include <set>

#include "penstock/hosts/sharing.h"
#include "penstock/hosts/sites.h"

namespace penstock::hosts {
namespace {

constexpr std::size_t kEach = 3;  // Pairs that a pair sends to.

std::vector<int> ends_with_ways(const Hosts& hosts, const MeasuredLinks& links) {
  std::vector<int> ends;
  for (int end = kCaller; end < static_cast<int>(hosts.hosts.size()); ++end) {
    const auto has = [&](const auto& way) {
      return way.first.first == end || way.first.second == end;
    };
    if (std::ranges::any_of(links.ways, has)) ends.push_back(end);
  }
  return ends;
}

/// Which two hosts send to which two others at once, all four unlike, so that no cable is common to
/// both: each pair sends to up to kEach pairs, those that were told the least of so far, whose ways
/// are comparable() and have no wire in common that is known.
class Choice {
 public:
  Choice(const Hosts& hosts, const MeasuredLinks& links)
      : network_(hosts, links), links_(links), ends_(ends_with_ways(hosts, links)) {}

  std::vector<std::pair<Ends, Ends>> run() {
    std::vector<Ends> pairs;
    for (std::size_t a = 0; a < ends_.size(); ++a) {
      for (std::size_t b = a + 1; b < ends_.size(); ++b) pairs.emplace_back(ends_[a], ends_[b]);
    }
    // Where there is no time for all, those that are tried are spread over all hosts.
    std::ranges::shuffle(pairs, std::mt19937(0));  // NOLINT(*-msc51-cpp): alike each time
    std::vector<std::pair<Ends, Ends>> chosen;
    for (std::size_t round = 0; round < kEach; ++round) {
      for (const auto& [a, b] : pairs) {
        if (const auto ways = choose(a, b)) chosen.push_back(*ways);
      }
    }
    return chosen;
  }

 private:
  std::optional<std::pair<Ends, Ends>> choose(int a, int b) {
    std::optional<Ends> best;
    std::pair<std::size_t, double> least{};  // How often told of, and how slow.
    for (const int one : ends_) {
      for (const int other : ends_) {
        if (!may_try({a, one}, {b, other})) continue;
        const std::set<int> key{one, other};
        if (tried_[{a, b}].contains(key)) continue;
        const std::pair now(told_[one] + told_[other], -slower({a, one}, {b, other}));
        if (best && now >= least) continue;
        best = Ends(one, other);
        least = now;
      }
    }
    if (!best) return std::nullopt;
    tried_[{a, b}].insert({best->first, best->second});
    ++told_[best->first];
    ++told_[best->second];
    return std::pair(Ends(a, best->first), Ends(b, best->second));
  }

  [[nodiscard]] double slower(Ends one, Ends other) const {
    return std::min(links_.ways.at(one).bandwidth, links_.ways.at(other).bandwidth);
  }

  [[nodiscard]] bool may_try(Ends one, Ends other) const {
    if (std::set{one.first, one.second, other.first, other.second}.size() < 4) return false;
    const auto way = links_.ways.find(one), beside = links_.ways.find(other);
    if (way == links_.ways.end() || beside == links_.ways.end()) return false;
    return comparable(way->second.bandwidth, beside->second.bandwidth) &&
           network_.wires_in_common(one, other) == 0;
  }

  const Network network_;
  const MeasuredLinks& links_;
  const std::vector<int> ends_;
  std::map<Ends, std::set<std::set<int>>> tried_;  ///< Peers, by the pair that sends.
  std::map<int, std::size_t> told_;                ///< How often an end was a peer.
};

/// Of the two ends of a way the one that was asked to measure it.
Transfer transfer_on(Ends way) {
  const auto [less, more] = std::minmax(way.first, way.second);
  return {way, less == kCaller ? more : less};
}

/// What the site's uplink was seen to carry.
double carried(const Site& site, Direction direction, const std::vector<Sharing>& seen) {
  double most = 0;
  for (const auto& each : seen) {
    const bool out = direction == Direction::kOut;
    const bool mine =
        out ? site.hosts.contains(each.hosts[0]) && site.hosts.contains(each.hosts[1]) &&
                  !site.hosts.contains(each.one) && !site.hosts.contains(each.other)
            : site.hosts.contains(each.one) && site.hosts.contains(each.other) &&
                  !site.hosts.contains(each.hosts[0]) && !site.hosts.contains(each.hosts[1]);
    if (mine && each.rates.shared()) most = std::max(most, each.rates.wire());
  }
  return most > 0 ? most : planner::kInfinite;
}

/// Tries pairs of ways until there are no more, or no time is left.
class Trials {
 public:
  Trials(const Hosts& hosts, const MeasuredLinks& links, const WorkerOf& worker,
         const SurveyLimits& limits, std::vector<Error>& failed)
      : hosts_(hosts), links_(links), worker_(worker), limits_(limits), failed_(failed) {}

  void run() {
    for (const auto& [one, other] : Choice(hosts_, links_).run()) {
      if (limits_.stopped()) return;
      if (is_broken(one) || is_broken(other)) continue;
      const double seconds = seconds_to_compare(links_, one, other);
      if (seconds_ + seconds > limits_.uplink_seconds) return;
      seconds_ += seconds;
      auto rates = compared(one, other);
      // One moment of other traffic must not pass for an uplink.
      if (rates && rates->shared()) {
        seconds_ += seconds;
        rates = compared(one, other);
      }
      if (!rates) continue;
      trials.push_back({one, other, rates->shared()});
      seen.push_back({{one.first, other.first}, Direction::kOut, one.second, other.second, *rates});
    }
  }

  std::vector<PairTrial> trials;
  std::vector<Sharing> seen;  ///< As `trials`.

 private:
  [[nodiscard]] bool is_broken(Ends way) const {
    return broken_.contains(way.first) || broken_.contains(way.second);
  }

  std::optional<Rates> compared(Ends one, Ends other) {
    auto rates = compare(hosts_, links_, worker_, transfer_on(one), transfer_on(other));
    if (rates) return *rates;
    broken_.insert({transfer_on(one).asked, transfer_on(other).asked});
    failed_.push_back(std::move(rates).error());
    return std::nullopt;
  }

  const Hosts& hosts_;
  const MeasuredLinks& links_;
  const WorkerOf& worker_;
  const SurveyLimits& limits_;
  std::vector<Error>& failed_;
  std::set<int> broken_;
  double seconds_ = 0;
};

using Uplinks = decltype(MeasuredLinks::uplinks);

/// What each two hosts of the site share.
void add_uplinks(const Site& site, Direction direction, double bandwidth, Uplinks& uplinks) {
  for (const int one : site.hosts) {
    for (const int other : site.hosts) {
      if (one < other) uplinks[{{one, other}, direction}] = bandwidth;
    }
  }
}

}  // namespace

std::vector<Sharing> measure_uplinks(const Hosts& hosts, MeasuredLinks& links,
                                     const WorkerOf& worker, const SurveyLimits& limits,
                                     std::vector<Error>& failed) {
  Trials made(hosts, links, worker, limits, failed);
  made.run();
  for (const auto& [one, other, shared] : made.trials) {
    links.uplinks[{std::minmax(one.first, other.first), Direction::kOut}] = planner::kInfinite;
    links.uplinks[{std::minmax(one.second, other.second), Direction::kIn}] = planner::kInfinite;
  }
  for (const auto& site : sites_of(ends_with_ways(hosts, links), made.trials)) {
    for (const auto direction : {Direction::kOut, Direction::kIn}) {
      const bool shares = direction == Direction::kOut ? site.shares_out : site.shares_in;
      if (shares) add_uplinks(site, direction, carried(site, direction, made.seen), links.uplinks);
    }
  }
  return std::move(made.seen);
}

}  // namespace penstock::hosts
