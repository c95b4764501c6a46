// From hosts and a graph to the planner's problem, and the answer that keeps to shared links.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/cost/graph_problem.h"
#include "penstock/graph/graph.h"
#include "penstock/hosts/hosts.h"
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

/// How busy a wire is for each frame: seconds.
struct WireLoad {
  std::string name;
  double seconds = 0;
};

struct SiteAnswer {
  planner::Problem problem;     ///< Of cost::problem_of() over the hosts.
  planner::Answer answer;       ///< Its period counts shared wires too.
  std::vector<WireLoad> wires;  ///< Those that carry something, the busiest first.
};

/// Plans over the hosts. The lower bound is that of the planner, which lets no device do two things
/// at once but knows no wire that several share; the period does. Where a shared wire binds, plans
/// that keep off it are searched too. With the goal of throughput, or no cap on latency, what a
/// link delays counts nowhere: calls in flight hide it.
/// \error as devices_of(), cost::problem_of() and planner::solve()
Result<SiteAnswer> plan_over(const graph::Graph& graph, const Hosts& hosts, const Known& known,
                             const SitePlanOptions& options);

/// Of its CPUs' time what the host's quota leaves the device: from 0 to 1.
double share_of(const Host& host, const std::vector<device::Device>& devices,
                const device::Device& device);

/// What each wire carries for each frame of the split.
std::vector<WireLoad> wire_loads(const planner::Problem& problem, const planner::Split& split,
                                 const Hosts& hosts, const Network& network);

}  // namespace penstock::hosts
