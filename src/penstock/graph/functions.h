// Model-local functions: one operator set for all, then inlined. Internal to graph.
#pragma once

#include <onnx/onnx_pb.h>

#include "penstock/base/result.h"

namespace penstock::graph {

/// Removes the functions that bear the name of an operator of ONNX (in the model's operator set) or
/// of com.microsoft, whatever their overload: ONNX Runtime takes the operator and never looks at
/// them.
void drop_shadowed_functions(onnx::ModelProto& model);

/// Gives the model and its functions one version of each domain's operator set: the model's own, or
/// else a function's, in which every operator that they use means the same as in the version that
/// each names. Only the versions change.
/// \error kUnimplemented  there is none; names a function, both versions and the operator.
Status align_opsets(onnx::ModelProto& model);

/// \pre  align_opsets(), and the checker takes the model.
Status inline_functions(onnx::ModelProto& model);

}  // namespace penstock::graph
