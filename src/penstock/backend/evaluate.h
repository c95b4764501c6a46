// Running a model once, for whoever needs values or types rather than speed.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "penstock/backend/backend.h"

namespace penstock::backend {

/// After which a run of evaluate() is cancelled: a loop of constants may go on for ever.
inline constexpr std::chrono::seconds kLongestEvaluation{10};

/// Compiles `model` (a serialised onnx.ModelProto without external data) unoptimised on the calling
/// thread and runs it once. `inputs` follow the model's; the outputs are in its order.
/// `custom_ops`: libraries of the operators that the engine does not have itself.
/// \error as Backend::compile() and Context::run(); kCancelled  the run takes longer than `limit`.
Result<std::vector<Tensor>> evaluate(Backend& backend, const std::string& model,
                                     const std::vector<Tensor>& inputs = {},
                                     const std::vector<std::filesystem::path>& custom_ops = {},
                                     std::chrono::nanoseconds limit = kLongestEvaluation);

/// The types that the backend infers for the outputs of `model`.
Result<std::vector<Type>> output_types(Backend& backend, const std::string& model,
                                       const std::vector<std::filesystem::path>& custom_ops = {});

}  // namespace penstock::backend
