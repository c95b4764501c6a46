// Annealing: random moves and exchanges of groups, alone or together, ever fewer for the worse.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "penstock/planner/search/loads.h"
#include "penstock/planner/search/random.h"
#include "penstock/planner/search/search.h"

namespace penstock::planner {

/// Temperatures are parts of the period: a move that makes it worse by that part is taken with
/// chance 1/e.
struct Schedule {
  double hot = 0.05, cold = 1e-5;
  std::int64_t moves = 0;
  std::vector<int> only = {};  ///< Devices whose groups move, among themselves; empty: all.
};

struct Annealed {
  std::vector<int> place_of;  ///< The best that fits the memory; empty where none did.
  double period = kInfinite;
};

/// Says of an assignment with the least period so far whether it may be kept.
using Accept = std::function<bool(const std::vector<int>& place_of)>;

/// Walks from the assignment in `loads`, which it changes, and keeps the least period. Energy:
/// sum over devices of load^q, with q 32, then 64. `accept` may be empty: all are kept.
/// Source: Kirkpatrick, Gelatt and Vecchi, Science 220, 1983.
Annealed anneal(Loads& loads, const Schedule& schedule, Random& random, const Budget& budget,
                const Accept& accept);

}  // namespace penstock::planner
