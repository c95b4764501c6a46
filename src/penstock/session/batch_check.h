// Whether the models for several frames compute what so many calls of one frame do.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/frames/random.h"
#include "penstock/plan/plan.h"
#include "penstock/tensor/tensor.h"

namespace penstock {

/// What tensors are for each of a few frames, by name.
using FrameValues = std::map<std::string, std::vector<Tensor>>;

/// Runs the stages on the frames, or on random ones where they are null, one by one and several in
/// a call, by ONNX Runtime or where that is not here by the stage's own backend, unoptimised:
/// outputs must agree within the default tolerance. A plan without batches runs nothing.
/// \returns what the stages that ran read and made.
/// \error kFailedPrecondition  an output differs: names stage, model and output.
/// \error kUnavailable         no engine is here that could tell. And what the engine says.
Result<FrameValues> check_batches(const plan::Plan& plan, const std::filesystem::path& folder,
                                  const backend::Registry& backends,
                                  const std::vector<frames::Frame>* frames = nullptr);

/// A call of so many frames: one after the other along the first dimension, over and over.
Tensor join_frames(const std::vector<Tensor>& frames, int count);

}  // namespace penstock
