// Frames as lines of JSON, in the form of penstock.io.JsonLines in Python.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/cli/line_file.h"
#include "penstock/frames/source.h"
#include "penstock/pipeline/frame.h"
#include "penstock/plan/plan.h"

namespace penstock::cli {

/// {"frame": 0, "outputs": {"scores": [[0.5, null]]}}, or {"frame": 1, "error": error_json()}; with
/// "stream" where it is not 0, and "files": {"image": "cat.png"} where it is read from files.
class JsonLines {
 public:
  /// "-" is standard output. \error kPermissionDenied  the file cannot be written.
  static Result<JsonLines> create(const std::filesystem::path& target,
                                  std::vector<plan::TensorInfo> outputs);

  /// A frame's outputs: lists as the shape nests them; what is no finite number is null. Standard
  /// output gets each line at once. \pre output.ok()
  /// \error kInvalidArgument  a value has no such form: names the output; as LineFile::write()
  Status write(const pipeline::Output& output, const frames::Files& files);
  /// A frame that has no outputs.
  Status write_error(std::uint64_t frame, const Error& error, const frames::Files& files,
                     std::uint64_t stream);
  Status finish();

 private:
  JsonLines(LineFile file, std::vector<plan::TensorInfo> outputs);

  LineFile file_;
  std::vector<plan::TensorInfo> outputs_;
};

}  // namespace penstock::cli
