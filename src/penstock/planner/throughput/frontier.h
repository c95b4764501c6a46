// Frontier search: is there a contiguous split with every load below T? Exact, over all orders.
#pragma once

#include <cstdint>

#include "penstock/planner/bounds/closure.h"
#include "penstock/planner/bounds/model.h"
#include "penstock/planner/bounds/rest_bound.h"
#include "penstock/planner/search/search.h"
#include "penstock/planner/throughput/labels.h"

namespace penstock::planner {

enum class Reached { kFound, kNone, kStopped };

struct FrontierResult {
  Reached reached = Reached::kStopped;
  Split split;             ///< Of the instance, if found.
  double period = 0;       ///< Its largest load.
  std::int64_t steps = 0;  ///< Groups that were put into a stage: the work done.
};

/// Looks for a split with loads below a period (and latency within the model's cap). Takes ideals
/// by size; from each it tries every stage that can follow, and keeps the ideals reached with the
/// device counts they need.
class Frontier {
 public:
  /// Borrows the model.
  explicit Frontier(const Model& model) : model_(&model), closure_(model), rest_(model, closure_) {}

  /// False with so many different devices that their counts do not go into one word.
  [[nodiscard]] bool possible() const { return CountWord(model_->instance).possible(); }

  /// Stops after `most_steps`, or when the budget ends.
  [[nodiscard]] FrontierResult run(double period, std::int64_t most_steps, const Budget& budget);
  /// Whether RestBound alone shows that there is none: at once.
  [[nodiscard]] bool refutes(double period, const Budget& budget);
  void use_transfers() { rest_.use_transfers(); }  ///< In RestBound.

 private:
  const Model* model_;
  Closure closure_;
  RestBound rest_;
};

}  // namespace penstock::planner
