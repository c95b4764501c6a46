// Paths inside a package: relative, with '/', never leading outside.
#pragma once

#include <string_view>

namespace penstock::plan {

/// What is wrong with `path` as a path inside a package ("leads outside the package"), or empty.
std::string_view path_problem(std::string_view path);

/// Whether an engine's setting names a place on the disk, which it then reads or writes, or code to
/// load: OpenVINO's "CACHE_DIR", ONNX Runtime's
/// "session.model_external_initializers_file_folder_path"; or its value is a path. A package, or
/// who sends a model from elsewhere, may not say such things of this machine.
bool names_a_place(std::string_view key, std::string_view value);

}  // namespace penstock::plan
