#include "penstock/base/files.h"

#include <cstdlib>
#include <string>
#include <system_error>

namespace penstock {

Status make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return {};
  return make_error(Code::kPermissionDenied, "folder '", folder.string(),
                    "': cannot be made: ", error.message());
}

Result<std::shared_ptr<const std::filesystem::path>> make_temporary_folder() {
  std::error_code error;
  std::string pattern = (std::filesystem::temp_directory_path(error) / "penstock-XXXXXX").string();
  if (error || ::mkdtemp(pattern.data()) == nullptr) {
    return make_error(Code::kPermissionDenied, "folder '", pattern,
                      "': cannot be made; set TMPDIR to a folder that can be written");
  }
  return std::shared_ptr<const std::filesystem::path>(
      new std::filesystem::path(pattern), [](const std::filesystem::path* folder) {
        std::error_code ignored;
        std::filesystem::remove_all(*folder, ignored);
        delete folder;
      });
}

}  // namespace penstock
