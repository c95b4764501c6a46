// A sound, cut into frames.
#pragma once

#include <filesystem>

#include "penstock/base/result.h"
#include "penstock/frames/values.h"

namespace penstock::frames {

/// Blocks of a WAV file, one behind the other, each of an input's shape; the last one is filled
/// with zeros.
///
/// `type` is f32. [N], [1,N] and so on take N samples, the mean of the file's channels; [2,N] or
/// [N,2] (beside dimensions of 1) N samples of each of a file's 2 channels. An open first dimension
/// is 1, other open ones are at their bound.
/// \error as WavFile::open(); kInvalidArgument  `type` is not like this, or nothing is in the file.
Result<Values> sound_values(const std::filesystem::path& file, const Type& type);

}  // namespace penstock::frames
