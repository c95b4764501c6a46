// onnx.ModelProto -> Draft, as it stands there. Internal to graph.
#pragma once

#include <cstdint>

#include <onnx/onnx_pb.h>

#include "penstock/base/result.h"
#include "penstock/graph/draft.h"
#include "penstock/graph/import.h"
#include "penstock/graph/normalise.h"

namespace penstock::graph {

/// What the model said before normalisation, and what else the builder needs.
struct Sources {
  std::int64_t ir_version = 0;
  Weights weights;  ///< Of every initialiser.
};

/// The graph of a model without functions. \error kNotFound  no initialiser of a parameter's name.
Result<Draft> draft_of(const onnx::ModelProto& model, Sources sources,
                       const ImportOptions& options);

}  // namespace penstock::graph
