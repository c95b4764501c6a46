// What the graphs nested in a node read from around it.
#pragma once

#include <string>

#include "penstock/base/result.h"
#include "penstock/graph/graph.h"

namespace penstock::graph {

/// Lets the graphs nested in the node's attributes read `to` wherever they read the outer `from`.
/// Node::captures stay as they are.
/// \error kInvalidArgument  one of them defines a `to` of its own.
Status rename_captured(Node& node, const std::string& from, const std::string& to);

}  // namespace penstock::graph
