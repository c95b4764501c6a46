// Sharing: whether a host's ways share its wire, seen by two transfers at once beside each alone.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/hosts/hosts.h"
#include "penstock/hosts/network.h"
#include "penstock/hosts/worker.h"

namespace penstock::hosts {

/// Two transfers of one host in one direction: bytes a second.
struct Sharing {
  int host = kCaller;  ///< As MeasuredLinks has it; the peers, too.
  Direction direction = Direction::kOut;
  int one = kCaller, other = kCaller;
  double one_alone = 0, other_alone = 0;
  double together = 0;  ///< Of both, the sum.

  /// Together they have no more than 1.25 times what the faster one has alone.
  [[nodiscard]] bool shared() const;
  /// What the wire carries; infinite where it is not shared.
  [[nodiscard]] double wire() const;
};

/// The peers whose transfers tell most of the host's own wire: its two fastest that have no named
/// uplink in common. None where there are no two, or one has less than half of the other's
/// bandwidth: the sum would then be near that of one whatever they share.
std::optional<std::pair<int, int>> peers_to_try(const Hosts& hosts, const MeasuredLinks& links,
                                                int host, Direction direction);

/// Three transfers, of 0.25 to 2 s each, for each direction of each host with two peers or more.
/// `worker`: of a host, by its number; null where there is none. What fails is told to `failed`.
std::vector<Sharing> measure_sharing(const Hosts& hosts, const MeasuredLinks& links,
                                     const std::function<Worker*(int)>& worker,
                                     std::vector<Error>& failed);

}  // namespace penstock::hosts
