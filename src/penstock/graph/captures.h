// What the graphs nested in a node read from around it.
#pragma once

#include <string>

#include "penstock/base/result.h"
#include "penstock/graph/graph.h"

namespace penstock::graph {

/// Whether a graph nested in the node's attributes, at any depth, has a value of that name of its
/// own, which hides one around it.
Result<bool> hides(const Node& node, const std::string& name);

/// Lets the graphs nested in the node's attributes read `to` wherever they read the outer `from`.
/// Node::captures stay as they are.
/// \pre  hides(node, to) is false.
Status rename_captured(Node& node, const std::string& from, const std::string& to);

}  // namespace penstock::graph
