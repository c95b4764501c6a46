// LatencyExact: the least latency over all splits of a model, with proof where it ends in time.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "penstock/planner/latency/latency_tails.h"

namespace penstock::planner {

/// What a search appends to a split, in order: blocks that run as one call, or one block on cores.
struct LatencyStep {
  std::vector<int> blocks;
  int call = -1;  ///< Index into LatencyModel::calls; -1: cores.
};

/// Told of every better sequence of steps; answers what the search need no longer better.
using OfferSteps = std::function<double(const std::vector<LatencyStep>&)>;

struct LatencyProof {
  bool complete = false;  ///< The search saw everything: `bound` is the model's optimum or `limit`.
  double bound = 0;       ///< No split costs less.
  bool infeasible = false;  ///< Complete, and nothing was found below an infinite limit.
};

/// Label setting over ideals (sets of blocks closed under "before"). A label of an ideal says which
/// devices have been used and when each group with followers outside ends; a step adds one block on
/// cores or a call of several. Of two labels of one ideal the one that is no earlier anywhere goes,
/// and so does what the tails show to end no earlier than the best known.
/// Ideals are taken by size, so each is expanded once. Chains have few of them, wide graphs many.
///
/// Looks for what costs less than `limit`.
LatencyProof prove_latency(const LatencyModel& model, const LatencyTails& tails, double limit,
                           const OfferSteps& offer, const Budget& budget);

}  // namespace penstock::planner
