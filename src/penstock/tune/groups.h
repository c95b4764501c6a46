// Groups: devices of several CPUs, chosen by what the network takes on each kind of group.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/cost/analytic.h"
#include "penstock/cost/database.h"
#include "penstock/device/group_kinds.h"
#include "penstock/graph/graph.h"
#include "penstock/partition/split.h"
#include "penstock/tune/plans.h"

namespace penstock::tune {

/// What a cover takes on the devices that a machine could have.
struct GroupCosts {
  Cover cover;
  std::vector<double> node_seconds;  ///< Of each node: how a device's time is shared among them.
  /// Of the whole network on a device of each of Groupings::kinds, while its like run on the other
  /// CPUs in use; infinite: it cannot, or was not measured.
  std::vector<double> kind_seconds;
};

/// What handing a tensor over costs.
struct HandingOver {
  cost::Figures figures;
  /// [from][to] Between devices of two of Groupings::kinds, as measured; empty: nothing was. What a
  /// tensor's bytes take is counted over the fastest of these, which parts' own times have in them.
  std::vector<std::vector<std::optional<cost::Link>>> links = {};
};

/// Seconds of handing over from one device to another; none: there was no time to measure them.
using MeasureLink = std::function<Result<std::optional<cost::Link>>(const device::Device& from,
                                                                    const device::Device& to)>;

/// The link of each two kinds of groups that may stand side by side. What cannot be measured counts
/// as what was not; `notes` gets one sentence of all that failed.
HandingOver links_between(const device::Groupings& groupings, const MeasureLink& measure,
                          std::vector<std::string>& notes);

/// A plan on devices that were chosen.
struct Grouped {
  partition::ChosenStages split;
  double period_seconds = 0;   ///< Between frames,
  double latency_seconds = 0;  ///< and of one frame.
  std::string grouping;        ///< device::Grouping::text
  std::string covers;          ///< backends_in() what the stages run.
};

/// What is asked of a grouping's plan.
struct GroupSearch {
  bool latency = false;  ///< The least time of one frame; else the least between frames.
  std::vector<std::vector<graph::NodeId>> loops = {};  ///< state_loops()
  /// What all stages of a plan may hold; where the best plan without a limit holds more, each
  /// device has a share by its width. Without replicas nothing is held twice, and it has no limit.
  HostMemory memory = {};
  double seconds = 2;  ///< Of the search, for all uses together.
};

/// For each use of the CPUs the best plan of its groupings, the best first: each stage by one of
/// the covers, replicated where that makes frames come faster, on devices that need not be alike.
/// Uses without a plan are left out.
///
/// Loops that states close have one instance. A plan has them where they are best and no replicas
/// at all, or it has all of them on one device, whichever kind that is, and replicas of the rest.
/// \error as cost::problem_of()
Result<std::vector<Grouped>> grouped(const graph::Graph& graph, const device::Groupings& groupings,
                                     const std::vector<GroupCosts>& costs,
                                     const HandingOver& handing_over, const GroupSearch& search);

}  // namespace penstock::tune
