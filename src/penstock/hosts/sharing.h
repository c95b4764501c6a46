// Sharing: whether a host's ways share its wire, and whether hosts share an uplink.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/hosts/hosts.h"
#include "penstock/hosts/network.h"
#include "penstock/hosts/transfers.h"

namespace penstock::hosts {

/// Two transfers in one direction: of one host with two peers, or of two hosts with a peer each.
struct Sharing {
  std::vector<int> hosts;  ///< As MeasuredLinks has them; the peers, too.
  Direction direction = Direction::kOut;
  int one = kCaller, other = kCaller;  ///< Peers: of the first or only host, and of the last.
  Rates rates;
};

/// The peers whose transfers tell most of the host's own wire: its two fastest that have no uplink
/// in common. None where there are no two that are comparable().
std::optional<std::pair<int, int>> peers_to_try(const Hosts& hosts, const MeasuredLinks& links,
                                                int host, Direction direction);

/// Three transfers for each direction of each host with two peers or more. What fails is told to
/// `failed`.
std::vector<Sharing> measure_sharing(const Hosts& hosts, const MeasuredLinks& links,
                                     const WorkerOf& worker, const SurveyLimits& limits,
                                     std::vector<Error>& failed);

/// Hosts (this machine is one) that share an uplink: sites_of() what transfers from two hosts to
/// two others are seen to share. What is seen to be shared counts if it is seen so twice. `links`
/// gets what the uplinks carry, and infinity for the pairs of hosts that were tried and share none.
/// What fails is told to `failed`; a host that failed is tried no more.
std::vector<Sharing> measure_uplinks(const Hosts& hosts, MeasuredLinks& links,
                                     const WorkerOf& worker, const SurveyLimits& limits,
                                     std::vector<Error>& failed);

}  // namespace penstock::hosts
