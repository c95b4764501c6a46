// Stages given node by node: groups, what joins them, and their order.
#pragma once

#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/graph/graph.h"

namespace penstock::partition {

/// Some nodes of each group are given; the rest joins, and the groups are put in order.
struct Groups {
  std::vector<std::string> labels;  ///< For messages: "device cpu:0".
  std::vector<int> of_node;         ///< The group of each node; -1: not given.
};

/// The stages, in topological order; among those free to come first, the group listed first.
///
/// A node that is not given joins, in topological order, the group of its producers that comes
/// last (that reaches no other of theirs; of several the one with the later producer). One without
/// such producers joins the first consumer's group, one without either joins the first group.
///
/// \error kInvalidArgument  the groups depend on each other in a cycle: named, tensor by tensor.
Result<std::vector<std::vector<graph::NodeId>>> order_groups(const graph::Graph& graph,
                                                             Groups groups);

}  // namespace penstock::partition
