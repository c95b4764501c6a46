// The options that name frames' values, and the values that they name.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "penstock/base/result.h"
#include "penstock/cli/values.h"
#include "penstock/measure/frames.h"
#include "penstock/plan/plan.h"

namespace penstock::cli {

struct InputArguments {
  std::vector<std::string> files;  ///< "NAME=FILE", "NAME=FOLDER", "NAME=-"
  std::filesystem::path all;       ///< A folder or .npz.
  measure::RandomValues random;
};

/// --input, --inputs, --seed, --integer-limit
void add_input_options(CLI::App* command, InputArguments& arguments);

/// --seed, --integer-limit
void add_random_options(CLI::App* command, InputArguments& arguments);

/// Whether any files are named.
bool has_files(const InputArguments& arguments);

/// What to do where a frame failed whose values were random: "; the inputs were random: ...". Empty
/// where files were named, or the values are not to blame: it was late, or an edge full.
std::string advice_on_random(const Error& error, const InputArguments& arguments,
                             const std::vector<plan::TensorInfo>& inputs);

/// The position of the input that an --input names. \error kNotFound, kInvalidArgument
Result<std::size_t> input_of(const std::vector<plan::TensorInfo>& inputs, const std::string& text);

/// Values of each input, by position, in the order of the frames.
using Columns = std::map<std::size_t, Values>;

struct GivenInputs {
  Columns columns;
  std::optional<std::size_t> live;  ///< The input that standard input feeds.
};

/// What the files hold. \error as values_of(); kNotFound  a name that is no input;
/// kInvalidArgument  standard input for several inputs.
Result<GivenInputs> read_given(const std::vector<plan::TensorInfo>& inputs,
                               const InputArguments& arguments);

/// A tensor's name as part of a file's name: what is not a letter, digit, '.', '_' or '-' becomes
/// '_'.
std::string file_name_of(const std::string& tensor);

}  // namespace penstock::cli
