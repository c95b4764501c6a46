// Adds the site that explains the most, and moves hosts between sites, until neither explains more.
#include "penstock/hosts/sites.h"

#include <algorithm>
#include <optional>

namespace penstock::hosts {
namespace {

bool leaves(const Site& site, Ends way) {
  return site.hosts.contains(way.first) && !site.hosts.contains(way.second);
}
bool enters(const Site& site, Ends way) {
  return !site.hosts.contains(way.first) && site.hosts.contains(way.second);
}

bool explains(const Site& site, const PairTrial& trial) {
  return (site.shares_out && leaves(site, trial.one) && leaves(site, trial.other)) ||
         (site.shares_in && enters(site, trial.one) && enters(site, trial.other));
}

std::size_t unexplained(const std::vector<Site>& sites, const std::vector<PairTrial>& trials) {
  return static_cast<std::size_t>(std::ranges::count_if(trials, [&](const PairTrial& trial) {
    const bool shared =
        std::ranges::any_of(sites, [&](const Site& site) { return explains(site, trial); });
    return shared != trial.shared;
  }));
}

/// Which of the uplinks are shared is chosen one after the other, as long as it explains more.
std::size_t choose_directions(std::vector<Site>& sites, const std::vector<PairTrial>& trials) {
  for (auto& site : sites) site.shares_out = site.shares_in = false;
  std::size_t least = unexplained(sites, trials);
  const auto try_out = [&](bool& shares) {
    shares = !shares;
    const std::size_t left = unexplained(sites, trials);
    if (left >= least) return void(shares = !shares);
    least = left;
  };
  for (std::size_t before = least + 1; least < before;) {
    before = least;
    for (auto& site : sites) {
      if (site.hosts.size() < 2) continue;
      try_out(site.shares_out);
      try_out(site.shares_in);
    }
  }
  return least;
}

/// Sites with one more, and how many trials they leave unexplained.
struct Extended {
  std::vector<Site> sites;
  std::size_t unexplained = 0;

  /// All hosts but those of a site explain as much as it does: the smaller one is meant.
  [[nodiscard]] bool is_better_than(const Extended& other) const {
    return std::pair(unexplained, sites.back().hosts.size()) <
           std::pair(other.unexplained, other.sites.back().hosts.size());
  }
};

Extended extended_by(const std::vector<Site>& sites, std::set<int> hosts,
                     const std::vector<PairTrial>& trials) {
  Extended extended{sites, 0};
  extended.sites.push_back({std::move(hosts)});
  extended.unexplained = choose_directions(extended.sites, trials);
  return extended;
}

/// Grows a site from two hosts: a part of a site may explain no more than none does.
Extended grow(const std::vector<Site>& sites, std::set<int> hosts, std::set<int> others,
              const std::vector<PairTrial>& trials) {
  auto best = extended_by(sites, hosts, trials);
  while (!others.empty()) {
    std::optional<Extended> next;
    int added = 0;
    for (const int other : others) {
      auto with = hosts;
      with.insert(other);
      auto extended = extended_by(sites, std::move(with), trials);
      if (next && !extended.is_better_than(*next)) continue;
      next = std::move(extended);
      added = other;
    }
    hosts.insert(added);
    others.erase(added);
    if (next->is_better_than(best)) best = *std::move(next);
  }
  return best;
}

/// Two hosts that both send, or both receive, in a trial that is shared and not explained: each
/// site that explains more has two of these.
std::set<Ends> seeds(const std::vector<Site>& sites, const std::vector<PairTrial>& trials) {
  std::set<Ends> found;
  for (const auto& trial : trials) {
    const auto does = [&](const Site& site) { return explains(site, trial); };
    if (!trial.shared || std::ranges::any_of(sites, does)) continue;
    found.insert(std::minmax(trial.one.first, trial.other.first));
    found.insert(std::minmax(trial.one.second, trial.other.second));
  }
  return found;
}

/// The best site among hosts that are in none; nullopt where none explains more than `least`
/// leaves.
std::optional<Extended> one_more(const std::vector<Site>& sites, const std::set<int>& free,
                                 std::size_t least, const std::vector<PairTrial>& trials) {
  std::optional<Extended> best;
  for (const auto& [one, other] : seeds(sites, trials)) {
    if (!free.contains(one) || !free.contains(other)) continue;
    auto others = free;
    others.erase(one);
    others.erase(other);
    auto grown = grow(sites, {one, other}, std::move(others), trials);
    if (grown.unexplained < least && (!best || grown.is_better_than(*best))) {
      best = std::move(grown);
    }
  }
  return best;
}

/// Of `sites` with one host moved to another of them or out of all, the best; nullopt where none
/// explains more than `least` leaves.
std::optional<Extended> one_moved(const std::vector<Site>& sites, const std::vector<int>& ends,
                                  std::size_t least, const std::vector<PairTrial>& trials) {
  std::optional<Extended> best;
  for (const int host : ends) {
    for (std::size_t to = 0; to <= sites.size(); ++to) {
      Extended moved{sites, 0};
      for (auto& site : moved.sites) site.hosts.erase(host);
      if (to < sites.size()) moved.sites[to].hosts.insert(host);
      moved.unexplained = choose_directions(moved.sites, trials);
      if (moved.unexplained >= (best ? best->unexplained : least)) continue;
      best = std::move(moved);
    }
  }
  return best;
}

}  // namespace

std::vector<Site> sites_of(const std::vector<int>& ends, const std::vector<PairTrial>& trials) {
  std::vector<Site> sites;
  std::size_t least = unexplained(sites, trials);
  while (least > 0) {
    std::set<int> free(ends.begin(), ends.end());
    for (const auto& site : sites) {
      for (const int host : site.hosts) free.erase(host);
    }
    auto found = one_moved(sites, ends, least, trials);
    if (!found) found = one_more(sites, free, least, trials);
    if (!found) break;
    sites = std::move(found->sites);
    least = found->unexplained;
  }
  std::erase_if(sites, [](const Site& site) { return !site.shares_out && !site.shares_in; });
  return sites;
}

}  // namespace penstock::hosts
