// The values of one input: from a file, from the files of a folder, from a sound.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/frames/frame.h"
#include "penstock/plan/plan.h"
#include "penstock/tensor/tensor.h"

namespace penstock::frames {

/// Gives the value of one frame: one in memory, or one that is read when its turn comes.
using Value = std::function<Result<Tensor>()>;
using Values = std::vector<Value>;

Value constant(Tensor value);

/// The value in a .npy, .pb or picture file. \error names the input and the file, expected, found.
Result<Tensor> load_value(const std::filesystem::path& file, const plan::TensorInfo& info);

/// \error kInvalidArgument  "input 'x': <where>: expected f32[1,3], found u8[3]"
Status check_value(const Tensor& value, const plan::TensorInfo& info, const std::string& where);

/// Whether each frame has a value for each input that fits it, before they are read by position.
/// \error kInvalidArgument  "frame 3: expected 2 values, of inputs 'x', 'y', found 1"; as
///                          check_value()
Status check_frames(const std::vector<plan::TensorInfo>& inputs, const std::vector<Frame>& frames);

/// What `--input NAME=PATH` stands for: one value of a file, which is read at once; one for each
/// .npy, .pb and picture of a folder, by name; one for each block of a .wav, `hop` samples from
/// start to start (see sound.h).
/// \error as load_value(); kNotFound  the folder has no such file.
Result<Values> values_of(const std::filesystem::path& path, const plan::TensorInfo& info,
                         std::uint64_t hop = 0);

/// What lies in a folder, by name. \error kNotFound
Result<std::vector<std::filesystem::path>> list_folder(const std::filesystem::path& folder);

}  // namespace penstock::frames
