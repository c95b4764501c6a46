// Transfers: bytes that are moved between hosts, one way alone and two at once.
#pragma once

#include <functional>

#include "penstock/base/result.h"
#include "penstock/hosts/hosts.h"
#include "penstock/hosts/network.h"
#include "penstock/hosts/worker.h"

namespace penstock::hosts {

/// The worker of a host, by its number; null where there is none.
using WorkerOf = std::function<Worker*(int)>;

struct SurveyLimits {
  double uplink_seconds = 120;      ///< Of the transfers that tell who shares an uplink.
  std::function<bool()> stop = {};  ///< Asked between measurements; true: no more are begun.

  [[nodiscard]] bool stopped() const { return stop && stop(); }
};

/// Bytes are moved from one end to the other; `asked` is the end whose worker is asked to, which is
/// not this machine. A worker moves bytes for one at a time.
struct Transfer {
  Ends ends;
  int asked;
};

/// Bytes a second of two transfers, each alone and both at once.
struct Rates {
  double one_alone = 0, other_alone = 0;
  double together = 0;  ///< Of both, the sum.

  /// Together they have no more than 1.25 times what the faster one has alone.
  [[nodiscard]] bool shared() const;
  /// What they share carries; infinite where they share nothing.
  [[nodiscard]] double wire() const;
};

/// Neither has less than half of the other's bandwidth: the sum would then be near that of one
/// whatever they share.
bool comparable(double one, double other);

/// Of compare(): three transfers of 0.25 to 2 s, as the bandwidths of both ways suggest, which are
/// known.
double seconds_to_compare(const MeasuredLinks& links, Ends one, Ends other);

/// \error what the workers said
Result<Rates> compare(const Hosts& hosts, const MeasuredLinks& links, const WorkerOf& worker,
                      const Transfer& one, const Transfer& other);

}  // namespace penstock::hosts
