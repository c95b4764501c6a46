// Where `penstock run` writes outputs.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/cli/json_lines.h"
#include "penstock/pipeline/frame.h"
#include "penstock/plan/plan.h"
#include "penstock/tensor/npz.h"
#include "penstock/tensor/tensor.h"

namespace penstock::cli {

/// Whether a file can be written there: told before the work that it is to hold. Makes none.
/// `option`: by which it is named. `in_place`: a file that is there is written, and not replaced by
/// one that was written beside it. `begin`: of all files of its kind, in small letters; what is
/// there and begins otherwise is not overwritten.
/// \error kPermissionDenied  with the system's reason. kAlreadyExists  it would lose another file.
Status check_writable(const std::string& option, const std::filesystem::path& file, bool in_place,
                      std::string_view begin);
inline constexpr std::string_view kJson = "{", kHtml = "<!doctype html", kSvg = "<svg", kNpz = "pk";

/// A folder (<name>.npy of one frame, <frame>/<name>.npy of several; .pb where .npy has no form), a
/// .npz (<name>, or <frame>/<name>), which is written at the end, or lines of JSON: a .jsonl, or
/// "-". Of a sequence each element has a name of its own, <name>.0000, <name>.0001 and so on.
class OutputWriter {
 public:
  /// An empty path: nothing is written. `frames`: how many will come, if that is known.
  /// `read`: files and folders that the frames are read from.
  /// \error kPermissionDenied  the folder cannot be made, or the file not be written.
  /// \error kInvalidArgument   a file of a kind that is not written, or one that is read; a .npz,
  ///                            and an output of 4- or 2-bit numbers, which NumPy lacks; an output
  ///                            that is called as another's element is.
  /// \error kAlreadyExists     files of an earlier run would remain among those of this one.
  static Result<OutputWriter> create(const std::filesystem::path& target,
                                     std::vector<plan::TensorInfo> outputs,
                                     std::optional<std::uint64_t> frames,
                                     std::span<const std::filesystem::path> read = {});

  /// A frame's outputs. \pre output.ok()
  Status write(const pipeline::Output& output, const frames::Files& files);
  /// A frame that has none: as a line of JSON only.
  Status write_error(std::uint64_t frame, const Error& error, const frames::Files& files,
                     std::uint64_t stream);
  Status finish();

 private:
  Status write_value_of(std::uint64_t frame, std::size_t output, const Tensor& value);

  std::filesystem::path target_;
  std::vector<plan::TensorInfo> outputs_;
  std::vector<std::string>
      stems_;  ///< What the outputs' files, or the archive's arrays, are called.
  bool several_frames_ = false;
  bool is_archive_ = false;
  NamedTensors archive_;
  std::optional<JsonLines> lines_;
};

}  // namespace penstock::cli
