// Frame: what goes into a pipeline at once.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "penstock/tensor/tensor.h"

namespace penstock::frames {

/// One tensor for each input, in the order of the plan's inputs.
using Frame = std::vector<Tensor>;

/// The frames again from the first on until there are `least`; a `sequence` stays as it is, as who
/// begins it again begins its states too. \pre  there is one.
std::vector<Frame> repeated(std::vector<Frame> frames, std::size_t least, bool sequence);

/// SHA-256 of all types and values, in hexadecimal.
std::string digest_of(const std::vector<Frame>& frames);

}  // namespace penstock::frames
