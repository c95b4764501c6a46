// Upload: a model that a client sends, written to a temporary folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "penstock/base/result.h"
#include "penstock/serve/load_config.h"
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
/// \error kInvalidArgument    a path that leads elsewhere, or two that are one; a file that the
///                            configuration names is not there.
/// \error kResourceExhausted  over `most_bytes`, or the disk is full.
Result<Upload> write_upload(const LoadConfig& config, const LoadOptions& options,
                            std::uint64_t most_bytes);

/// An error of files that a client sent, in its words: the path of one that lies in `folder` is
/// `as` and its path there. What is corrupt or missing of them is the client's own mistake, and
/// so kInvalidArgument; not so a device or a backend that this machine lacks, nor what another
/// machine answers.
Error in_senders_words(Error error, const std::filesystem::path& folder, std::string_view as);

/// What a stranger's model may not tell an engine: options that name files or folders.
/// \error kPermissionDenied  names the option.
Status check_options(const std::map<std::string, std::string>& options);

/// \error kInvalidArgument  the name of a model is empty, too long, holds '/' or control
///                          characters, or is "..".
Status check_model_name(const std::string& name);

}  // namespace penstock::serve
