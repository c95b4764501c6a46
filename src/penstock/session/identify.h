// identify(): what a path that is given to a command means.
#pragma once

#include <filesystem>

namespace penstock {

enum class FileKind { kModel, kPackage, kApplication };

/// A folder is a package, and so is a zip by its first bytes, or by its name where there is nothing
/// to read; a name that ends in .yaml or .yml is an application; all else is a model. The file need
/// not exist.
FileKind identify(const std::filesystem::path& path);

}  // namespace penstock
