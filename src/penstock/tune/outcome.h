// Outcome: what a search chose, so that the same question need not be searched again.
#pragma once

#include <string>
#include <string_view>

#include "penstock/base/result.h"
#include "penstock/device/topology.h"
#include "penstock/tune/contest.h"
#include "penstock/tune/recall.h"
#include "penstock/tune/report.h"
#include "penstock/tune/way.h"

namespace penstock::tune {

struct Outcome {
  Contestant contestant;
  Report report;
  double budget_seconds = 0;    ///< That the search had: with more it may find a better plan.
  std::int64_t most_parts = 0;  ///< Parts that the search might measure.
  double minimum_seconds = 0;   ///< Report's, of that search.
  /// It was made again because a simple way passed the plan, and found nothing better.
  bool settled = false;
  Stale stale;  ///< Why the next build searches again, for which the last had no time left.
};

std::string to_json(const Outcome& outcome);
/// \error kDataLoss, kInvalidArgument, kFailedPrecondition  not such a text, or another version's
Result<Outcome> outcome_from_json(std::string_view text);

/// Of all that decides what a search does but for its time: the network with its names, devices,
/// goal, ways of computing, rules, settings, tolerance, frames; the machine, what its devices have
/// in common, its memory, and the engines.
cost::PlanKey question_of(const graph::Graph& graph, const Options& options,
                          const std::vector<device::Device>& devices, const std::vector<Way>& ways,
                          const backend::Registry& backends, const measure::Ring& ring,
                          const device::Topology& topology);

}  // namespace penstock::tune
