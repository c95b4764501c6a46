// Recall: whether what an earlier search chose still holds.
#pragma once

#include <string>
#include <vector>

#include "penstock/tune/report.h"
#include "penstock/tune/way.h"

namespace penstock::tune {

/// Why what was chosen does not hold.
struct Stale {
  std::string why;  ///< A sentence; empty: it holds.
  std::string way;  ///< The simple way that passes it; empty: none does.
};

/// Why the search is to be made again, by the comparison that was kept with its outcome and by the
/// same comparison now. It is where a simple way whose backend may be chosen passes the plan by
/// more than noise in every round; where it did so then, only if that is not `settled`: a second
/// search found nothing better. It is, too, where the plan is off by more than 10 %, by itself, so
/// that no round of then is as one of now, and, round by round, beside most of the simple ways. A
/// machine that is slower as a whole for now is no reason.
Stale stale(const Comparison& then, const Comparison& now, const std::vector<Way>& ways,
            bool settled);

}  // namespace penstock::tune
