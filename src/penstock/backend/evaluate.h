// Running a model once, for whoever needs values or types rather than speed.
#pragma once

#include <string>
#include <vector>

#include "penstock/backend/backend.h"

namespace penstock::backend {

/// Compiles `model` (a serialised onnx.ModelProto without external data) unoptimised on the calling
/// thread and runs it once. `inputs` follow the model's; the outputs are in its order.
/// \error as Backend::compile() and Context::run().
Result<std::vector<Tensor>> evaluate(Backend& backend, const std::string& model,
                                     const std::vector<Tensor>& inputs = {});

/// The types that the backend infers for the outputs of `model`.
Result<std::vector<Type>> output_types(Backend& backend, const std::string& model);

}  // namespace penstock::backend
