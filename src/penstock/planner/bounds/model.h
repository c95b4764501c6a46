// Model: what the contiguous searches share: an instance, the rules in force, and prices.
#pragma once

#include <algorithm>
#include <vector>

#include "penstock/planner/bounds/prices.h"
#include "penstock/planner/problem/fits.h"
#include "penstock/planner/problem/instance.h"

namespace penstock::planner {

struct Model {
  Instance instance;
  bool replicas = false;
  double latency_cap = kInfinite;
  bool holds_transfers = false;  ///< A value's bytes count at each stage that it enters or leaves.
  std::vector<Prices> prices;
};

/// A stage's transfers: times, and the bytes that it holds for them.
struct Transfers {
  double in = 0, out = 0, bytes = 0;
};

/// What a device of this overlap needs for each frame.
inline double load_of(Overlap overlap, double compute, const Transfers& transfers) {
  switch (overlap) {
    case Overlap::kHalfDuplex:
      return std::max(compute, transfers.in + transfers.out);
    case Overlap::kFullDuplex:
      return std::max({compute, transfers.in, transfers.out});
    case Overlap::kSerial:
      break;
  }
  return compute + transfers.in + transfers.out;
}

/// "Below T" for proofs: losing this much relative precision keeps a plan at the bound proved.
inline constexpr double kPrecision = 5e-10;
/// Relative slack of every test that discards something: more than rounding ever makes.
inline constexpr double kSlack = 1e-11;

}  // namespace penstock::planner
