// Where `penstock run` writes outputs.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/plan/plan.h"
#include "penstock/tensor/npz.h"
#include "penstock/tensor/tensor.h"

namespace penstock::cli {

/// A folder (<name>.npy of one frame, <frame>/<name>.npy of several; .pb where .npy has no form) or
/// a .npz (<name>, or <frame>/<name>), which is written at the end.
class OutputWriter {
 public:
  /// An empty path: nothing is written.
  /// \error kPermissionDenied  the folder cannot be made.
  /// \error kAlreadyExists     files of an earlier run would remain among those of this one.
  static Result<OutputWriter> create(const std::filesystem::path& target,
                                     std::vector<plan::TensorInfo> outputs, std::uint64_t frames);

  Status write(std::uint64_t frame, std::size_t output, const Tensor& value);
  Status finish();

 private:
  std::filesystem::path target_;
  std::vector<plan::TensorInfo> outputs_;
  bool several_frames_ = false;
  bool is_archive_ = false;
  NamedTensors archive_;
};

}  // namespace penstock::cli
