// Alternates a search at estimated costs and measuring the parts of the best cover that it found.
#include "penstock/collage/measured_cover.h"

#include <algorithm>
#include <cmath>

namespace penstock::collage {
namespace {

/// The best cover if every unknown cost were as estimated.
Result<Covers> hoped_for(CoverProblem problem, const Measuring& measuring,
                         const CoverOptions& options) {
  for (std::size_t c = 0; c < problem.candidates.size(); ++c) {
    double& cost = problem.candidates[c].cost;
    if (!std::isnan(cost)) continue;
    const double least = measuring.estimate(static_cast<int>(c));
    cost = least > 0 ? least : 0;
  }
  auto one = options;
  one.covers = 1;
  one.known.clear();
  return find_covers(problem, one);
}

/// \returns whether it was stopped.
bool measure(CoverProblem& problem, const std::vector<int>& candidates,
             const Measuring& measuring) {
  for (const int c : candidates) {
    double& cost = problem.candidates[static_cast<std::size_t>(c)].cost;
    if (!std::isnan(cost)) continue;
    if (measuring.stop && measuring.stop()) return true;
    const double seconds = measuring.measure(c);
    cost = seconds >= 0 ? seconds : kInfinite;
  }
  return false;
}

}  // namespace

Result<MeasuredCovers> find_covers_by_measuring(CoverProblem problem, const Measuring& measuring,
                                                const CoverOptions& options) {
  const auto unknown = [&](int c) {
    return std::isnan(problem.candidates[static_cast<std::size_t>(c)].cost);
  };
  MeasuredCovers found;
  double bound = 0;
  for (bool stopped = false; !stopped;) {
    PENSTOCK_TRY(const auto hoped, hoped_for(problem, measuring, options));
    bound = hoped.lower_bound;
    if (std::ranges::none_of(hoped.best.front().candidates, unknown)) {
      found.proved = hoped.complete;
      break;
    }
    stopped = measure(problem, hoped.best.front().candidates, measuring);
  }
  PENSTOCK_TRY(found.covers, find_covers(problem, options));
  found.covers.lower_bound = std::min(found.covers.lower_bound, bound);
  for (const auto& candidate : problem.candidates) found.costs.push_back(candidate.cost);
  return found;
}

}  // namespace penstock::collage
