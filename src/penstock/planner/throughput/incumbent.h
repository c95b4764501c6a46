// Incumbent: the best split so far, judged by evaluate(), and the bound so far.
#pragma once

#include "penstock/planner/problem/instance.h"
#include "penstock/planner/throughput/contiguous.h"

namespace penstock::planner {

class Incumbent {
 public:
  /// Borrows all three.
  Incumbent(const Problem& problem, const Options& options, const BoundsReport& report);

  /// Takes a split of the problem if it keeps all rules and is better. Tells whether it was taken.
  bool offer(const Split& split);
  /// No split costs less than this.
  void raise(double lower_bound);
  void prove_infeasible();

  [[nodiscard]] const std::optional<Split>& split() const { return outcome_.split; }
  [[nodiscard]] double cost() const { return outcome_.cost; }
  [[nodiscard]] double lower_bound() const { return outcome_.lower_bound; }
  [[nodiscard]] bool proved() const;  ///< The two have met.
  [[nodiscard]] Outcome take() { return std::move(outcome_); }

 private:
  const Problem* problem_;
  const Options* options_;
  const BoundsReport* report_;
  Outcome outcome_;
  double latency_ = kInfinite;
  std::size_t devices_ = 0;
};

}  // namespace penstock::planner
