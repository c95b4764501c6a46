// What the user gives as frames' values: files by the input's name, folders, archives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/frames/random.h"
#include "penstock/frames/values.h"
#include "penstock/plan/bound.h"
#include "penstock/plan/package.h"
#include "penstock/plan/plan.h"

namespace penstock::frames {

/// Held in memory at once, of what may be more than memory holds, to be measured again and again.
constexpr std::uint64_t kUsualFrames = 256;

struct SourceOptions {
  std::vector<std::string> files;  ///< "NAME=FILE", "NAME=FOLDER", "NAME=-"
  std::filesystem::path all;       ///< A folder, of a .npz for each frame too, or a .npz.
  SoundOptions sound;
  RandomValues random;              ///< Of the inputs that are not given.
  plan::BoundValues bound;          ///< That may be named, too: what is given must be equal.
  std::vector<std::string> states;  ///< Names of inputs that no frame gives: who does is told so.
  std::uint64_t wanted = 0;         ///< Frames that read_frames() takes at most; 0: kUsualFrames.
  std::uint64_t most_bytes = 1ULL << 30U;  ///< Of the frames that it takes, but for the first.
  /// Hears where fewer are taken than are wanted or given, which files of a folder are no values,
  /// and of sounds that differ.
  Warn warn = [](const std::string&) {};
  /// All inputs that the model had, by name: the numbers of `input_<i>.pb`. Empty: the inputs.
  std::vector<std::string> order;
};

/// The names of `inputs`, with those that are bound at their places.
std::vector<std::string> order_of(const std::vector<plan::TensorInfo>& inputs,
                                  std::vector<std::pair<std::size_t, std::string>> bound);

/// These options, with the inputs that a package binds. \error as plan::read_bound_values()
Result<SourceOptions> with_bound(SourceOptions options, const plan::Package& package);

/// What may be named: the inputs, then those that are bound.
std::vector<plan::TensorInfo> nameable(std::vector<plan::TensorInfo> inputs,
                                       const SourceOptions& options);

/// Whether any files are named.
bool has_files(const SourceOptions& options);

/// The position of the input that a "NAME=FILE" names. \error kNotFound, kInvalidArgument
Result<std::size_t> input_of(const std::vector<plan::TensorInfo>& inputs, const std::string& text);

/// Warns of sounds that have several sample rates, where none is expected.
void note_rates(const std::vector<plan::TensorInfo>& inputs, const SourceOptions& options);

/// The files and folders that are named, standard input left out, nor what names no input.
std::vector<std::filesystem::path> paths_of(const std::vector<plan::TensorInfo>& inputs,
                                            const SourceOptions& options);

/// Values of each input, by position, in the order of the frames.
using Columns = std::map<std::size_t, Values>;

struct GivenInputs {
  Columns columns;
  std::optional<std::size_t> live;  ///< The input that standard input feeds.
};

/// What the files hold. \error as values_of(); kNotFound  a name that is no input;
/// kInvalidArgument  standard input for several inputs, or another value for a bound one.
Result<GivenInputs> read_given(const std::vector<plan::TensorInfo>& inputs,
                               const SourceOptions& options);

/// The tensors' names as parts of files' names, in their order: what is not a letter, digit, '.',
/// '_' or '-' becomes '_'. Of other tensors that this makes alike, and like names that it leaves as
/// they are, the later ones end in "-2", "-3" and so on.
std::vector<std::string> file_names_of(const std::vector<plan::TensorInfo>& tensors);

}  // namespace penstock::frames
