// Nodes of a file in an order in which each stands behind what it reads. Internal to graph.
#pragma once

#include <vector>

#include <onnx/onnx_pb.h>

namespace penstock::graph {

/// Sorts the nodes of the graph, of those nested in it, and of functions, where they are not in
/// order; else, and in a circle, they stay where they are. \returns whether any moved.
bool sort_nodes(onnx::ModelProto& model);

/// The order that differs least from the file's, by number; without those that are in a circle, or
/// wait for one that is.
std::vector<int> order_of(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes);

}  // namespace penstock::graph
