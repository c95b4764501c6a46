// Tells a folder that is not there from one without rights.
#include "penstock/base/missing_folder.h"

#include <system_error>

#include "penstock/base/error.h"

namespace penstock {

std::string about_missing_folder(const std::filesystem::path& folder) {
  std::error_code unknown;
  if (std::filesystem::exists(folder, unknown) || unknown) return "";
  return concat("; make the folder '", folder.string(), "' first");
}

}  // namespace penstock
