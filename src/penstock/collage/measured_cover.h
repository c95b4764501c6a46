// The cheapest cover by few measurements: a candidate is measured when it could be part of it.
#pragma once

#include <functional>
#include <vector>

#include "penstock/collage/cover.h"

namespace penstock::collage {

struct Measuring {
  /// Seconds that a candidate takes at least, by what is known so far; asked anew before every
  /// search. The better, the fewer measurements; what is too high may hide the best cover. Below
  /// 0 or not a number: 0. For instance a share (0.85) of the sum of its units' measured seconds.
  std::function<double(int candidate)> estimate;
  /// Its seconds; infinite or NaN where it does not run. Asked once for each.
  std::function<double(int candidate)> measure;
  /// Asked before each measurement; true ends it all with what is known. May be absent.
  std::function<bool()> stop;
};

struct MeasuredCovers {
  Covers covers;              ///< Of measured candidates. The bound counts estimates for the rest.
  std::vector<double> costs;  ///< Of the candidates; NaN: not measured.
  /// No cover is better, if no candidate that was not measured is below its estimate.
  bool proved = false;
};

/// Searches with estimates in the place of unknown costs, measures what the best cover so found is
/// made of, and searches again until all of it is measured: the best of all, then.
///
/// \param problem  candidates of unknown cost (NaN) are those to measure; the others are not asked.
/// \error as find_covers(); kNotFound or kDeadlineExceeded also where it was stopped before the
///        candidates measured make a cover
Result<MeasuredCovers> find_covers_by_measuring(CoverProblem problem, const Measuring& measuring,
                                                const CoverOptions& options = {});

}  // namespace penstock::collage
