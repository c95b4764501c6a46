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
                                     const WorkerOf& worker, std::vector<Error>& failed);

/// Pairs of peers of two hosts, none of which has a wire in common with the other's that is known:
/// first the pair whose slower way is the fastest, then the fastest one with another peer. Two, one
/// or none.
std::vector<std::pair<int, int>> far_ends_to_try(const Hosts& hosts, const MeasuredLinks& links,
                                                 Ends pair, Direction direction);

/// Hosts (this machine is one) that share an uplink: each is tried beside the first of those that
/// were seen to share one. Each time three transfers, or six where they share: an uplink of theirs
/// is shared whichever the peers are, one of the peers only with those. What is found is added to
/// `links`; what fails is told to `failed`.
std::vector<Sharing> measure_uplinks(const Hosts& hosts, MeasuredLinks& links,
                                     const WorkerOf& worker, std::vector<Error>& failed);

}  // namespace penstock::hosts
