// Frames to measure with: seeded random values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/frames/frame.h"
#include "penstock/plan/plan.h"

namespace penstock::frames {

struct RandomValues {
  std::uint64_t seed = 0;
  std::uint64_t integer_limit = 2;  ///< Integers of 16 bits and more stay under this, 1 or more.
  double scale = 1;  ///< Floats of which no range is known are so many times as large.
};

/// Random values of frame `number`: the same for the same seed and number; those of an input whose
/// range is known within it; two to four of a sequence, one of an optional.
/// \error kInvalidArgument  an input's shape has no bound, or its type no random values: names it;
///                          the limit of integers is 0.
Result<Frame> random_frame(const std::vector<plan::TensorInfo>& inputs, const RandomValues& values,
                           std::uint64_t number);

/// A frame of values that are given, by position; the others are random, and their open dimensions
/// as large as those of the same symbol among what is given. \error as random_frame()
Result<Frame> completed_frame(const std::vector<plan::TensorInfo>& inputs,
                              const std::map<std::size_t, Tensor>& given,
                              const RandomValues& values, std::uint64_t number);

/// The first `count` random frames.
Result<std::vector<Frame>> random_frames(const std::vector<plan::TensorInfo>& inputs,
                                         const RandomValues& values, std::uint64_t count);

/// "ids=1x5", of each input that is open: what random frames are of.
std::vector<std::string> open_sizes(const std::vector<plan::TensorInfo>& inputs);

/// What to do where random values of these inputs made a network fail: "; the inputs were random,
/// integers in 'sr': bind what never changes (--constant ...), or " and `frames`. Empty where the
/// values are not to blame: it was late, something full, the model itself is refused, or a backend
/// breaks its contract. `bound`: inputs that have one value for good, which may be at fault, too.
std::string advice_on_random(const Error& error, const std::vector<plan::TensorInfo>& inputs,
                             std::string_view frames, const std::vector<std::string>& bound);

/// Names of inputs whose values the user's files do not give.
struct NotGiven {
  std::vector<std::string> bound;   ///< As above.
  std::vector<std::string> random;  ///< Of a frame's inputs.
};

/// What to do where a network failed on values that the user gave by `option`: "; the frame is
/// made of inputs 'ids' i64[1,3], 'b' f32[5,4] (--inputs): give sizes and values that the network
/// takes"; where a function failed, what the frame is made of alone.
/// Without types where it is not known which `frame` failed (null). Empty where it was no frame
/// that failed, or its values are not to blame.
std::string advice_on_given(const Error& error, const std::vector<plan::TensorInfo>& inputs,
                            const Frame* frame, std::string_view option, const NotGiven& others);

}  // namespace penstock::frames
