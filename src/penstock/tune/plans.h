// From a cover and devices to plans.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/cost/analytic.h"
#include "penstock/cost/graph_problem.h"
#include "penstock/device/device.h"
#include "penstock/graph/graph.h"
#include "penstock/partition/split.h"
#include "penstock/tune/copies.h"
#include "penstock/tune/way.h"

namespace penstock::tune {

/// All nodes of the graph, each once, in the order of execution on one thread.
using Cover = std::vector<partition::ChosenPart>;

std::vector<graph::NodeId> all_nodes(const graph::Graph& graph);

/// By the analytic model, of each node on so many CPUs.
std::vector<double> analytic_seconds(const graph::Graph& graph, std::size_t cpus);

/// One part.
Cover whole_cover(const graph::Graph& graph, const Way& way);

/// One device that has the CPUs of all.
device::Device union_of(const std::vector<device::Device>& devices);

/// The whole network on each device: "one session per core".
partition::ChosenStages on_each(const graph::Graph& graph, const Cover& cover,
                                const std::vector<device::Device>& devices);

/// The whole network on one device that has the CPUs of all.
partition::ChosenStages on_all(const graph::Graph& graph, const Cover& cover,
                               const std::vector<device::Device>& devices);

/// The cover with one part for all that follow one another on one backend, where nothing that the
/// order of execution allows becomes a cycle.
Cover merge_neighbours(const Cover& cover);

/// "onednn", "openvino:bf16+onednn"
std::string backends_in(const Cover& cover);
/// The backends_in() the cover, and "in 5 parts" where they are several.
std::string name_of(const Cover& cover);
/// The backends_in() the cover, its stages, and which of the plans it is: "onednn in 2 stages, plan
/// 3".
std::string name_of(const Cover& cover, const partition::ChosenStages& split, std::size_t plan);

/// What of the cover lies in a stage; `nodes` ascending.
std::vector<partition::ChosenPart> parts_within(const Cover& cover,
                                                const std::vector<graph::NodeId>& nodes);

/// What the planner makes of it.
struct Planned {
  partition::ChosenStages split;
  double period_seconds = 0;
};

/// What seconds of nodes are of.
struct Place {
  const graph::Graph& graph;
  const std::vector<device::Device>& devices;  ///< Seconds are those on the first.
  /// Of each device: what the seconds there are multiplied by, beside what the analytic model makes
  /// of its number of CPUs; empty: 1 each.
  std::vector<double> paces = {};

  [[nodiscard]] double pace_of(const device::Device& device) const;
  /// What the nodes take there, by their seconds on the first device.
  [[nodiscard]] double seconds_on(const device::Device& device,
                                  const std::vector<graph::NodeId>& nodes,
                                  const std::vector<double>& node_seconds) const;
};

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// Bytes of weights that each of so many devices may hold, so that all of them together hold what
/// the host does. Unlimited where a copy of the network for each device finds room.
double memory_share(const graph::Graph& graph, std::size_t devices, double host_bytes);

/// What planning knows of the network and the machine.
struct Measurements {
  const std::vector<double>& node_seconds;        ///< Of each node on the first device.
  cost::Figures figures;                          ///< Of handing over.
  std::vector<std::vector<graph::NodeId>> loops;  ///< state_loops()
  HostMemory memory = {};                         ///< What all stages together may hold.
};

/// What a problem on the place's devices is made of, each of which may hold so many bytes of
/// weights. `pin_loops`: each loop to the fastest device, which then stands in for no other.
cost::GraphProblemOptions costs_for(const Place& place, const Measurements& measurements,
                                    double device_memory, bool pin_loops);

/// The pipeline of the least period; with `replicas`, stages may stand on several devices, but not
/// those of loops, which are then one stage on the fastest device.
///
/// The planner knows memory of devices; that of the host is kept to by what a plan holds there:
/// where the best without a limit holds more, the shortest of those that do not is taken, of plans
/// without replicas and of plans for devices that hold less and less. Those are a few, and no
/// proof.
/// \error as planner::solve(); kFailedPrecondition where the host's memory forbids each
Result<Planned> pipelined(const Place& place, const Cover& cover, const Measurements& measurements,
                          bool replicas, double search_seconds);

/// Scales the seconds of the nodes of each stage so that, where it stands, they add up to what was
/// measured. Seconds of 0 were not measured.
void correct(std::vector<double>& node_seconds, const Place& place,
             const partition::ChosenStages& split, const std::vector<double>& stage_seconds);

/// Makes seconds on the first device those where each stage stands, which add up to what it was
/// measured to take there. Seconds of 0 were not measured.
void bring_to_stages(std::vector<double>& node_seconds, const Place& place,
                     const partition::ChosenStages& split,
                     const std::vector<double>& stage_seconds);

}  // namespace penstock::tune
