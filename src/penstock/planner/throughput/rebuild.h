// Rebuilding: some neighbouring stages of a split taken apart into blocks and put together exactly.
#pragma once

#include <optional>

#include "penstock/planner/bounds/model.h"
#include "penstock/planner/search/random.h"
#include "penstock/planner/search/search.h"

namespace penstock::planner {

/// Large neighbourhoods: a few stages in a row become blocks drawn at random, each other stage is
/// one block, and the frontier finds the best split of the blocks, on any devices. Source: Shaw,
/// CP 1998.
class Rebuilder {
 public:
  /// Borrows the model.
  explicit Rebuilder(const Model& model) : model_(&model) {}

  /// One round from a split of the problem: another with a period below `period`; absent where none
  /// was found.
  std::optional<Split> run(const Split& split, double period, Random& random, const Budget& budget);

 private:
  static constexpr double kFirstBlocks = 40, kLeastBlocks = 12;

  const Model* model_;
  double blocks_ = kFirstBlocks;  ///< As many as the frontier can do in short time.
};

}  // namespace penstock::planner
