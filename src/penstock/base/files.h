// Folders, made with an error that is a sentence.
#pragma once

#include <filesystem>

#include "penstock/base/result.h"

namespace penstock {

/// Makes the folder and those above it where they are missing.
/// \error kPermissionDenied  with the system's reason
Status make_folder(const std::filesystem::path& folder);

}  // namespace penstock
