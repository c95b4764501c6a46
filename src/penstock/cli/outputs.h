// Where `penstock run` writes outputs.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/cli/json_lines.h"
#include "penstock/pipeline/frame.h"
#include "penstock/plan/plan.h"
#include "penstock/tensor/npz.h"
#include "penstock/tensor/tensor.h"

namespace penstock::cli {

/// A folder (<name>.npy of one frame, <frame>/<name>.npy of several; .pb where .npy has no form), a
/// .npz (<name>, or <frame>/<name>), which is written at the end, or lines of JSON: a .jsonl, or
/// "-".
class OutputWriter {
 public:
  /// An empty path: nothing is written. `frames`: how many will come, if that is known.
  /// \error kPermissionDenied  the folder cannot be made.
  /// \error kAlreadyExists     files of an earlier run would remain among those of this one.
  static Result<OutputWriter> create(const std::filesystem::path& target,
                                     std::vector<plan::TensorInfo> outputs,
                                     std::optional<std::uint64_t> frames);

  /// A frame as it came out. One that failed or was dropped is written as a line of JSON only.
  Status write(const pipeline::Output& output, const frames::Files& files);
  /// A frame that could not be read, or that the pipeline did not take.
  Status write_refused(std::uint64_t frame, const Error& error, const frames::Files& files);
  Status finish();

 private:
  Status write_value_of(std::uint64_t frame, std::size_t output, const Tensor& value);

  std::filesystem::path target_;
  std::vector<plan::TensorInfo> outputs_;
  bool several_frames_ = false;
  bool is_archive_ = false;
  NamedTensors archive_;
  std::optional<JsonLines> lines_;
};

}  // namespace penstock::cli
