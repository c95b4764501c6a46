#include "penstock/base/files.h"

#include <system_error>

namespace penstock {

Status make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return {};
  return make_error(Code::kPermissionDenied, "folder '", folder.string(),
                    "': cannot be made: ", error.message());
}

}  // namespace penstock
