// A sound, cut into frames.
#pragma once

#include <cstdint>
#include <filesystem>

#include "penstock/base/result.h"
#include "penstock/frames/values.h"

namespace penstock::frames {

/// Blocks of a WAV file, each of an input's shape; from one's start to the next's are `hop`
/// samples, where 0 is a block's length: one behind the other. The last ones are filled with zeros.
///
/// `type` is f32. [N], [1,N] and so on take N samples, the mean of the file's channels; [2,N] or
/// [N,2] (beside dimensions of 1) N samples of each of a file's 2 channels. An open first dimension
/// is 1, other open ones are at their bound.
/// \error as WavFile::open(); kInvalidArgument  `type` is not like this, or nothing is in the file.
Result<Values> sound_values(const std::filesystem::path& file, const Type& type,
                            std::uint64_t hop = 0);

}  // namespace penstock::frames
