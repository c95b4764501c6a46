// From a cover and devices to plans.
#pragma once

#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/build/way.h"
#include "penstock/cost/analytic.h"
#include "penstock/device/device.h"
#include "penstock/graph/graph.h"
#include "penstock/partition/split.h"

namespace penstock::build {

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
partition::SplitOptions on_each(const graph::Graph& graph, const Cover& cover,
                                const std::vector<device::Device>& devices);

/// The whole network on one device that has the CPUs of all.
partition::SplitOptions on_all(const graph::Graph& graph, const Cover& cover,
                               const std::vector<device::Device>& devices);

/// The cover with one part for all that follow one another on one backend, where nothing that the
/// order of execution allows becomes a cycle.
Cover merge_neighbours(const Cover& cover);

/// "onednn", "openvino:bf16+onednn"
std::string backends_in(const Cover& cover);
/// The same, "in 5 parts" where they are several.
std::string name_of(const Cover& cover);

/// What the planner makes of it.
struct Planned {
  partition::SplitOptions split;
  double period_seconds = 0;
};

/// What planning knows of the machine.
struct Measurements {
  const std::vector<double>& node_seconds;  ///< Of each node on the first device.
  cost::Figures figures;                    ///< Of handing over.
};

/// The pipeline of the least period; with `replicas`, stages may stand on several devices.
/// \error as planner::solve()
Result<Planned> pipelined(const graph::Graph& graph, const Cover& cover,
                          const std::vector<device::Device>& devices,
                          const Measurements& measurements, bool replicas, double search_seconds);

/// What seconds of nodes are of.
struct Place {
  const graph::Graph& graph;
  const std::vector<device::Device>& devices;  ///< Seconds are those on the first.
};

/// Scales the seconds of the nodes of each stage so that, where it stands, they add up to what was
/// measured. Seconds of 0 were not measured.
void correct(std::vector<double>& node_seconds, const Place& place,
             const partition::SplitOptions& split, const std::vector<double>& stage_seconds);

}  // namespace penstock::build
