// Frames to measure with: seeded random values.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/plan/plan.h"
#include "penstock/tensor/tensor.h"

namespace penstock::frames {

/// One frame's tensors, in the order of the plan's inputs.
using Frame = std::vector<Tensor>;

struct RandomValues {
  std::uint64_t seed = 0;
  std::uint64_t integer_limit = 2;  ///< Random integers of 16 bits and more stay under this.
};

/// Random values of frame `number`: the same for the same seed and number.
/// \error kInvalidArgument  an input's shape has no bound, or its type no random values: names it.
Result<Frame> random_frame(const std::vector<plan::TensorInfo>& inputs, const RandomValues& values,
                           std::uint64_t number);

/// The first `count` random frames.
Result<std::vector<Frame>> random_frames(const std::vector<plan::TensorInfo>& inputs,
                                         const RandomValues& values, std::uint64_t count);

}  // namespace penstock::frames
