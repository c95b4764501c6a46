// Running a model once, for whoever needs values or types rather than speed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "penstock/backend/backend.h"

namespace penstock::backend {

/// Compiles `model` (a serialised onnx.ModelProto without external data) unoptimised on the calling
/// thread and runs it once. `inputs` follow the model's; the outputs are in its order.
/// `custom_ops`: libraries of the operators that the engine does not have itself.
/// \error as Backend::compile() and Context::run().
Result<std::vector<Tensor>> evaluate(Backend& backend, const std::string& model,
                                     const std::vector<Tensor>& inputs = {},
                                     const std::vector<std::filesystem::path>& custom_ops = {});

/// The types that the backend infers for the outputs of `model`.
Result<std::vector<Type>> output_types(Backend& backend, const std::string& model,
                                       const std::vector<std::filesystem::path>& custom_ops = {});

}  // namespace penstock::backend
