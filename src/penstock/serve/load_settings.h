// What a load says of its models besides their files: inputs that are bound, and states.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "penstock/app/source.h"
#include "penstock/base/result.h"
#include "penstock/serve/server.h"

namespace penstock::serve {

/// Where the files of a version lie that the request brings.
struct BroughtVersion {
  std::uint64_t number = 1;
  std::filesystem::path folder;
};

/// Of the version at `model`, which its request brought, or which is the server's own. A value or a
/// first state that ends in .npy is a file of the request, beside the model: nothing else of this
/// machine is read.
/// \error kInvalidArgument   no name or value; `model` is no model (.onnx); no such file.
Result<app::ModelSettings> read_settings(const LoadOptions& options,
                                         const std::filesystem::path& model,
                                         const std::optional<BroughtVersion>& brought);

}  // namespace penstock::serve
