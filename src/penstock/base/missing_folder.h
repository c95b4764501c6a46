// What to say of a folder that is not there.
#pragma once

#include <filesystem>
#include <string>

namespace penstock {

/// The end of a sentence on what cannot be written into the folder: "; make the folder 'x' first".
/// Empty: the folder is there.
std::string about_missing_folder(const std::filesystem::path& folder);

}  // namespace penstock
