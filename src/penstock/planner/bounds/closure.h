// Closure: how much stands behind each group. If a group is left to later stages, all of it is.
#pragma once

#include <vector>

#include "penstock/planner/bounds/ideals.h"
#include "penstock/planner/bounds/model.h"

namespace penstock::planner {

/// Sums over a group and all groups that must come after it, for each of the model's price systems.
struct Closure {
  explicit Closure(const Model& model);

  std::vector<double> total;              ///< [price system] Of all groups.
  std::vector<int> lacking;               ///< [price system] Groups that lack a type.
  std::vector<std::vector<double>> work;  ///< [price system][group]
  std::vector<double> before;             ///< [group] In the first, of all before it and itself.
  std::vector<std::vector<char>> lacks;   ///< [price system][group] 1: one of them lacks a type.
  std::size_t words = 0;                  ///< Of a set of groups.
  std::vector<Word>
      behind;  ///< [group * words ...] The groups behind each group, itself among them.
};

}  // namespace penstock::planner
