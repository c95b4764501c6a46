// From hosts and a graph to the planner's problem, and the answer that keeps to shared links.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/cost/graph_problem.h"
#include "penstock/graph/graph.h"
#include "penstock/hosts/hosts.h"
#include "penstock/hosts/loads.h"
#include "penstock/hosts/network.h"
#include "penstock/planner/solve.h"

namespace penstock::hosts {

/// What is known of hosts beside what their file says.
struct Known {
  MeasuredLinks links;
  /// Kind of host -> what was measured there.
  std::map<std::string, cost::NodeCosts> costs;
};

struct SitePlanOptions {
  cost::GraphProblemOptions costs;  ///< Of the caller's own devices, and of hosts without speed.
  planner::Options search;
};

struct SiteAnswer {
  planner::Problem problem;  ///< Of cost::problem_of() over the hosts.
  planner::Answer answer;    ///< Its period counts shared wires too.
  /// Wires that carry something, and CPUs of hosts that messages keep busy too; the busiest first.
  std::vector<WireLoad> wires;
};

/// Plans over the hosts. The lower bound is that of the planner, which lets no device do two things
/// at once but knows no wire that several share, nor the CPU time of messages; the period does.
/// Where one of these binds, plans that spare it are searched too. With the goal of throughput, or
/// no cap on latency, what a link delays counts nowhere: calls in flight hide it.
/// \error as devices_of(), cost::problem_of() and planner::solve()
Result<SiteAnswer> plan_over(const graph::Graph& graph, const Hosts& hosts, const Known& known,
                             const SitePlanOptions& options);

}  // namespace penstock::hosts
