// Candidates: what may run on the hosts, by what was measured there.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/cost/database.h"
#include "penstock/graph/graph.h"
#include "penstock/hosts/plan.h"
#include "penstock/hosts/survey.h"
#include "penstock/site/build.h"
#include "penstock/tune/contest.h"
#include "penstock/tune/way.h"

namespace penstock::site {

/// What one way takes: kind of host -> its nodes' seconds; "" for this machine.
struct WayCosts {
  tune::Way way;
  std::map<std::string, cost::NodeCosts> costs;
};

struct Place {
  const graph::Graph& graph;
  const hosts::Hosts& hosts;  ///< Completed; those that were reached.
  const Options& options;
};

/// Of each way that runs on all hosts; of the others `notes` tell why not. Takes about `seconds`.
/// \error kFailedPrecondition  none does
Result<std::vector<WayCosts>> measure_ways(const Place& place, hosts::Survey& survey,
                                           const std::vector<tune::Way>& ways, double seconds,
                                           const backend::Registry& backends,
                                           cost::Database& database,
                                           std::vector<std::string>& notes);

/// A plan, with what the planner says of it.
struct Candidate {
  tune::Contestant contestant;
  std::string expects;  ///< A sentence; empty: nothing was planned.
  double lower_bound = 0;
};

/// The planner's answers with the fastest way of each kind of host, with and without replicas, and
/// with each way alone; then the simple ways, whose names begin with kSimple.
/// \error as hosts::plan_over() and hosts::equip()
Result<std::vector<Candidate>> candidates(const Place& place, const hosts::MeasuredLinks& links,
                                          const std::vector<WayCosts>& ways, double search_seconds);

inline constexpr const char* kSimple = "the whole network on ";

/// Seconds of each node in the stage where it stands, by the way that runs it; and for each way.
double seconds_of(const WayCosts& ways, const std::string& kind,
                  const std::vector<graph::NodeId>& nodes);
/// Of the device's host; "" for this machine.
std::string kind_of(const hosts::Hosts& hosts, const device::Device& device);

}  // namespace penstock::site
