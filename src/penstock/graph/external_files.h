// Where a model file keeps numbers outside itself, without reading them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "penstock/base/result.h"

namespace penstock::graph {

/// The file that `location` names, if it lies in `folder`.
/// \error kInvalidArgument, kNotFound  it leads outside, or there is none.
Result<std::filesystem::path> resolve_location(const std::filesystem::path& folder,
                                               const std::string& location);

/// Whether all external data that a model file names, in whatever tensor, are files of its folder:
/// an engine would read others too.
/// \error kInvalidArgument  a location leads outside. kNotFound  it names no file.
/// \error kDataLoss         not an ONNX model.
Status check_external_files(const std::filesystem::path& model);

/// The external data of a model file: paths from its folder, as the model names them, each once.
/// \error as check_external_files()
Result<std::vector<std::string>> external_files(const std::filesystem::path& model);

/// What all of a model file and its external data give: who may read some of them may not read all.
/// The owner alone may, where that cannot be told.
std::filesystem::perms common_permissions(const std::filesystem::path& model);

}  // namespace penstock::graph
