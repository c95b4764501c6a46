// Candidates: the parts of a network that a backend's rule lets it try.
#pragma once

#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/collage/rules.h"
#include "penstock/collage/units.h"

namespace penstock::collage {

struct Candidate {
  std::string backend;
  std::vector<graph::NodeId> nodes;  ///< Ascending; convex.
  NodeSet units;                     ///< The units that these are: the nodes of a CoverCandidate.
  std::string label;                 ///< "Conv+Add+Relu", of many nodes "Conv+Relu+... (57 nodes)".
  bool host = false;                 ///< Computes nothing: costs nothing.
};

/// What bounds the search; the rule has limits of its own.
struct Limits {
  std::size_t max_nodes = 64;         ///< Of a candidate. Not where units have several nodes.
  std::size_t beam = 8;               ///< Kept of one size that begin with the same node or unit.
  std::size_t max_candidates = 4096;  ///< Small ones first; those of single nodes always stay.
};

/// All sets of nodes that the rule yields, within the limits; each once, ordered by first node,
/// then size, then nodes. The same arguments give the same answer.
/// \error kInvalidArgument    a limit is 0;
///        kResourceExhausted  the graph has more nodes than this can work on (65,536).
Result<std::vector<Candidate>> candidates(const graph::Graph& graph, const std::string& backend,
                                          const Rule& rule, const Limits& limits = {});

/// Those that are made of whole units.
///
/// Where a unit has several nodes, `combine` (without joins) yields every run of consecutive units
/// all of whose nodes the rule takes, and connected convex unions besides: each largest region that
/// the backend takes. Other rules yield what they yield node by node, as far as it is made of whole
/// units. The whole network is among them if the backend takes it, connected or not.
Result<std::vector<Candidate>> candidates(const graph::Graph& graph, const Units& units,
                                          const std::string& backend, const Rule& rule,
                                          const Limits& limits = {});

/// Whether the rule yields these nodes, as it would were they a unit: `combine` (without joins) any
/// set that those it begins with fill. \param nodes  convex
bool yields(const graph::Graph& graph, const Rule& rule, const std::vector<graph::NodeId>& nodes);

/// The nodes that are in any of the sets that the rule begins with, before it combines them.
NodeSet supported_nodes(const graph::Graph& graph, const Rule& rule);

/// The label of a set of nodes.
std::string label_of(const graph::Graph& graph, const std::vector<graph::NodeId>& nodes);

}  // namespace penstock::collage
