// A part of a graph -> onnx.ModelProto. Internal to graph: writer, inference and folding use it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <onnx/onnx_pb.h>

#include "penstock/base/result.h"
#include "penstock/graph/graph.h"

namespace penstock::graph {

/// Nodes with a boundary; nothing is implied, all is written as it stands here.
struct Part {
  std::vector<NodeId> nodes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<ValueId> constants;
};

/// Everything but the constants.
Result<onnx::ModelProto> model_of(const Graph& graph, const Part& part);

/// Name and, where known, type.
void fill(const Value& value, onnx::ValueInfoProto& proto);

/// Gives `model` pieces to `sink` that together are the serialised model with `constants` as
/// initialisers; their numbers go from their storage to the sink. `header(id, proto)` may complete
/// a constant's header; if it returns false, the numbers are left out.
using Sink = std::function<Status(std::string_view)>;
using CompleteHeader = std::function<bool(ValueId, onnx::TensorProto&)>;
Status stream(const Graph& graph, const onnx::ModelProto& model,
              const std::vector<ValueId>& constants, const CompleteHeader& complete,
              const Sink& sink);

/// The whole in one string. \error kResourceExhausted  over protobuf's 2 GB.
Result<std::string> bytes_of(const Graph& graph, const Part& part);

}  // namespace penstock::graph
