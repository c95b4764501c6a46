// Sites: which hosts share an uplink, told from which transfers share something.
#pragma once

#include <set>
#include <vector>

#include "penstock/hosts/network.h"

namespace penstock::hosts {

/// Two transfers whose four ends all differ, so that no host's own wire is common to them.
struct PairTrial {
  Ends one, other;
  bool shared = false;
};

/// Hosts behind one uplink. What they send each other does not pass it.
struct Site {
  std::set<int> hosts;
  bool shares_out = false, shares_in = false;
};

/// The sites that explain the most trials: two transfers share something where both leave a site
/// whose uplink they share, or both enter one. A host is in one site at most, and in none where no
/// trial needs it. A site and all hosts but its own explain as much: the smaller one is meant.
/// Sites are added one by one, and hosts moved, as long as that explains more: a local search,
/// which may miss the best answer.
std::vector<Site> sites_of(const std::vector<int>& ends, const std::vector<PairTrial>& trials);

}  // namespace penstock::hosts
