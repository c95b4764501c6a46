// Units: the few pieces of a network that candidates are made of.
#pragma once

#include <span>
#include <vector>

#include "penstock/collage/cover.h"
#include "penstock/collage/node_set.h"
#include "penstock/graph/graph.h"

namespace penstock::collage {

/// Every node is in one unit. Units are in a topological order: none reads from a later one, so
/// that consecutive ones are a convex set. The same for all backends, so that their covers fit.
struct Units {
  std::vector<std::vector<graph::NodeId>> nodes;  ///< Of each unit, ascending; never empty.
  std::vector<int> of_node;                       ///< The unit of each node.

  [[nodiscard]] std::size_t size() const { return nodes.size(); }
};

/// A unit of each node: for small networks, and for backends that fuse a few nodes at a time.
Units each_node(const graph::Graph& graph);

struct UnitLimits {
  std::size_t max_units = 16;
  // What a boundary costs, to be weighed against more even units.
  double seconds_per_byte = 1e-10;
  double seconds_per_value = 1e-6;
};

/// Units of about equal time, cut where few bytes and few values cross: single tensors rather than
/// several, those where there is no single one. Branches are kept together in the order that is
/// cut, and become units of their own where they are large. A unit that a backend takes only in
/// part is lost to it, so that boundaries also follow what backends support. Values that are no
/// tensors, or of unknown type, are never cut.
///
/// The best cuts of one depth-first order by dynamic programming; O(units * nodes^2) up to some
/// hundred nodes, of more only the best places are looked at.
/// \param seconds    of each node, for instance analytic; size = nodes
/// \param supported  for each backend that takes only some nodes, those (see supported_nodes())
Units make_units(const graph::Graph& graph, std::span<const double> seconds,
                 std::span<const NodeSet> supported, const UnitLimits& limits);

/// What the cover needs to know of the graph: a node for each unit, the values between units with
/// their bytes (open shapes at their bound; unbounded ones count 0), no candidates yet. Units are
/// named after their first and last node.
CoverProblem cover_problem(const graph::Graph& graph, const Units& units);

}  // namespace penstock::collage
