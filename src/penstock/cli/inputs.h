// Frames to push: from files, or seeded random values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "penstock/base/result.h"
#include "penstock/plan/plan.h"
#include "penstock/tensor/tensor.h"

namespace penstock::cli {

/// One frame's tensors, in the order of the model's inputs.
using FrameInputs = std::vector<Tensor>;

struct InputArguments {
  std::vector<std::string> files;  ///< "NAME=FILE"
  std::filesystem::path all;       ///< A folder or .npz.
  std::uint64_t seed = 0;
  std::uint64_t integer_limit = 2;
};

/// --input, --inputs, --seed, --integer-limit
void add_input_options(CLI::App* command, InputArguments& arguments);

/// --seed, --integer-limit
void add_random_options(CLI::App* command, InputArguments& arguments);

/// Whether any files are named.
bool has_files(const InputArguments& arguments);

/// The frames that the files hold, in order. An input given once serves all frames; inputs that are
/// not given are random.
/// \error kNotFound, kDataLoss, kInvalidArgument  names the input and the file, expected and found.
Result<std::vector<FrameInputs>> read_frames(const std::vector<plan::TensorInfo>& inputs,
                                             const InputArguments& arguments);

/// Random values of frame `number`: the same for the same seed and number.
Result<FrameInputs> random_frame(const std::vector<plan::TensorInfo>& inputs,
                                 const InputArguments& arguments, std::uint64_t number);

/// The first `count` random frames.
Result<std::vector<FrameInputs>> random_frames(const std::vector<plan::TensorInfo>& inputs,
                                               const InputArguments& arguments,
                                               std::uint64_t count);

/// A tensor's name as part of a file's name: what is not a letter, digit, '.', '_' or '-' becomes
/// '_'.
std::string file_name_of(const std::string& tensor);

}  // namespace penstock::cli
