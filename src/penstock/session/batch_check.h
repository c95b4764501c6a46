// Whether the models for several frames compute what so many calls of one frame do.
#pragma once

#include <filesystem>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/plan/plan.h"

namespace penstock {

/// Runs the stages on random frames, one by one and several in a call, by ONNX Runtime or where
/// that is not here by the stage's own backend, unoptimised: outputs must agree within the default
/// tolerance. A plan without batches runs nothing.
/// \error kFailedPrecondition  an output differs: names stage, model and output.
/// \error kUnavailable         no engine is here that could tell. And what the engine says.
Status check_batches(const plan::Plan& plan, const std::filesystem::path& folder,
                     const backend::Registry& backends);

}  // namespace penstock
