// Recall: whether what an earlier search chose still holds.
#pragma once

#include <string>
#include <vector>

#include "penstock/tune/report.h"
#include "penstock/tune/way.h"

namespace penstock::tune {

/// Why the search is to be made again, by the comparison that was kept with its outcome and by the
/// same comparison now. Empty: it holds. It does not where a simple way whose backend may be chosen
/// passes the plan by more than noise in every round, and did not then; or where the plan is off by
/// more than 10 %, by itself, so that no round of then is as one of now, and, round by round,
/// beside most of the simple ways. A machine that is slower as a whole for now is no reason, nor
/// are simple ways that had passed the plan already: the search knew, and found nothing better.
std::string stale(const Comparison& then, const Comparison& now, const std::vector<Way>& ways);

}  // namespace penstock::tune
