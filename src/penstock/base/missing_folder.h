// Whether something is not there, and what to say of a folder that is not.
#pragma once

#include <filesystem>
#include <string>

namespace penstock {

/// Whether the system says that nothing has the path. False where it may not be asked.
bool is_absent(const std::filesystem::path& path);

/// The end of a sentence on what cannot be written into the folder: "; make the folder 'x' first".
/// Empty: the folder is not absent.
std::string about_missing_folder(const std::filesystem::path& folder);

}  // namespace penstock
