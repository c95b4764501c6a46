// Multi-level annealing: first the blocks of a coarsened instance, then its groups.
#pragma once

#include <vector>

#include "penstock/planner/search/anneal.h"

namespace penstock::planner {

struct LevelOptions {
  bool fresh = false;         ///< Forget the assignment that it begins with: hotter, other blocks.
  std::int64_t effort = 100;  ///< Moves for each group.
  /// Another assignment: groups that it parts are in no block together. Empty: none. What both
  /// assignments keep together moves as one, so that the best of the two come together.
  std::vector<int> other;
};

/// Better assignments near `from`, or far from it where `fresh`. Empty where none fits the memory.
/// What it begins with comes back where nothing better that is accepted was met.
Annealed anneal_levels(const Loads& from, const LevelOptions& options, Random& random,
                       const Budget& budget, const Accept& accept);

}  // namespace penstock::planner
