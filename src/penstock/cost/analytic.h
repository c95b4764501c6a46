// Analytic costs: what a node costs by its multiply-accumulates and bytes, until it is measured.
#pragma once

#include "penstock/base/result.h"
#include "penstock/device/device.h"
#include "penstock/graph/graph.h"

namespace penstock::cost {

/// What one CPU does. The defaults are those of a common server core with 8-wide vectors at fp32;
/// what decides a split is their ratio, not their size.
struct Figures {
  double macs_per_second = 2e10;
  double bytes_per_second = 1e10;
  double seconds_per_node = 2e-6;        ///< An engine's own work around each operator.
  double seconds_per_transfer = 0.5e-6;  ///< Handing one tensor to another stage of this machine.
  bool operator==(const Figures&) const = default;
};

/// "macs=2e10,bytes=1e10,node=2e-6,transfer=5e-7", any of them, over the defaults.
/// \error kInvalidArgument  an unknown name, or a number that is not positive and finite
Result<Figures> parse_figures(std::string_view text);

/// Seconds of the node on a device of `cpus` CPUs by the roofline model (Williams, Waterman,
/// Patterson 2009): the larger of computing and moving its bytes, and the engine's own work.
/// Computing is shared by the CPUs; bytes and the engine's work are not.
double node_seconds(const graph::Graph& graph, graph::NodeId node, const Figures& figures,
                    int cpus);

/// Bytes a node reads and writes, shapes at their bound; tensors without bound count 0.
double bytes_moved(const graph::Graph& graph, graph::NodeId node);

}  // namespace penstock::cost
