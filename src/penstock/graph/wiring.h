// Whether every value that a model's nodes read is made, once, and before it is read.
#pragma once

#include <onnx/onnx_pb.h>

#include "penstock/base/result.h"

namespace penstock::graph {

/// Looks at the main graph and at those nested in it. Internal to graph.
/// \pre the nodes are sorted, as far as they can be: see sort_nodes().
/// \error kInvalidArgument  a value that nothing makes, one that is made twice, or nodes that feed
///                          each other in a circle; names the nodes and the values.
Status check_wiring(const onnx::GraphProto& graph);

}  // namespace penstock::graph
