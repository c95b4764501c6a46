// Tells a folder that is not there from one without rights.
#include "penstock/base/missing_folder.h"

#include <system_error>

#include "penstock/base/error.h"

namespace penstock {

bool is_absent(const std::filesystem::path& path) {
  std::error_code unknown;
  return !std::filesystem::exists(path, unknown) && !unknown;
}

std::string about_missing_folder(const std::filesystem::path& folder) {
  if (!is_absent(folder)) return "";
  return concat("; make the folder '", folder.string(), "' first");
}

}  // namespace penstock
