// Upload: a model that a client sends, written to a temporary folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "penstock/base/result.h"
#include "penstock/serve/server.h"

namespace penstock::serve {

struct Upload {
  std::map<std::uint64_t, std::filesystem::path> versions;  ///< What to serve as each.
  std::shared_ptr<const void> files;                        ///< They are removed with the last.
  std::uint64_t bytes = 0;
};

/// Writes `options.files`, each "VERSION/PATH", and says what each version is: the file that the
/// configuration names (default_model_filename), "model.onnx", a package ("plan.json"), or the only
/// file.
/// \error kInvalidArgument    no configuration; it is no JSON object, is of another model, or asks
///                            for what no pipeline does; a path that leads elsewhere.
/// \error kUnimplemented      a field of a configuration that is known, and not supported.
/// \error kResourceExhausted  over `most_bytes`, or the disk is full.
Result<Upload> write_upload(const std::string& model, const LoadOptions& options,
                            std::uint64_t most_bytes);

/// Of a request without files: the configuration of a model that the server knows.
/// \error kInvalidArgument  as write_upload(), or it names a file.
Status check_config(const std::string& model, const std::string& text);

/// What a stranger's model may not tell an engine: options that name files or folders.
/// \error kPermissionDenied  names the option.
Status check_options(const std::map<std::string, std::string>& options);

/// \error kInvalidArgument  the name of a model is empty, holds '/' or is "..".
Status check_model_name(const std::string& name);

}  // namespace penstock::serve
