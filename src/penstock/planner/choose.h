// Choosing devices: of a machine's possible groupings of processors, the one with the best plan.
#pragma once

#include <cstddef>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/planner/answer.h"
#include "penstock/planner/problem/problem.h"
#include "penstock/planner/search/search.h"

namespace penstock::planner {

/// How many devices of each of a problem's types there are at once; of an unlimited type any
/// number.
using Counts = std::vector<int>;

/// The problem with the first devices of each type. Types without a device are gone, and with them
/// their modes. \pre  one count for each type, none negative, none larger than the type has
/// devices
Problem with_counts(const Problem& problem, const Counts& counts);

struct Choice {
  std::size_t grouping = 0;  ///< The index of the counts chosen.
  Problem problem;  ///< with_counts() of them, no more than there are groups unless there are
                    ///< replicas: what the answer's indices are of.
  Answer answer;    ///< Its bound, gap and proof speak of all groupings.
  std::size_t searched = 0;  ///< Groupings that a bound did not rule out.
  std::size_t settled = 0;   ///< Groupings that no better plan can be of.
};

/// The best plan of all that any of the groupings has; of plans that are as good, that of the
/// grouping that stands first, of those to which no other has a device more.
///
/// Each grouping has a bound that no plan of it beats: period_bound(), for any goal at least its
/// dearest group; and for throughput with one stage a device what plan_shares() says of all
/// groupings, whose plan is the first that is tried. Those whose bound is below the best plan's
/// cost are solved in the order of their bounds, all for a short time, then what is left for twice
/// as long, and so on: until nothing is left or the options' time is over. So the answer is exact
/// where there is time, and else no worse than its gap. The options' user split is not used:
/// devices have other indices in each grouping.
///
/// \error kInvalidArgument  no grouping, or counts that are none of the problem;
///        of the first grouping as solve(), where none has a plan.
Result<Choice> choose(const Problem& problem, const std::vector<Counts>& groupings,
                      const Options& options);

}  // namespace penstock::planner
