// The contiguous search: each device runs one stage. Upper bounds at once, then the proof.
#pragma once

#include "penstock/planner/problem/problem.h"
#include "penstock/planner/search/search.h"

namespace penstock::planner {

/// The contiguous split with the least period, within `options.latency_cap`; among equals one with
/// less latency, then with fewer devices, as far as such were met. Types without limit stay unused.
///
/// First the best intervals along many linear orders (Probe), then a search over all orders
/// (Frontier) that proves the optimum or says how far off it may be. Bounds hold whenever the
/// budget ends. Where transfers depend on the partner's type, or frames in flight count in memory,
/// the bound is that of an easier problem and the split that of a harder one, so that a gap may
/// stay. A problem that validate() refuses gives an empty outcome.
Outcome search_contiguous(const Problem& problem, const Options& options, const Budget& budget,
                          const BoundsReport& report = {});

}  // namespace penstock::planner
