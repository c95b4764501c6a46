// Looks whether it is a folder, then at the suffix, then at the two bytes that begin a zip.
#include "penstock/session/identify.h"

#include <fstream>
#include <string>

#include "penstock/base/ending.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

bool is_zip(const fs::path& path, const std::string& extension) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return extension == ".zip";
  std::ifstream in(path, std::ios::binary);
  std::string magic(2, '\0');
  in.read(magic.data(), 2);
  return in.gcount() > 0 ? magic == "PK" : extension == ".zip";
}

}  // namespace

FileKind identify(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return FileKind::kPackage;
  const auto extension = ending_of(path);
  if (extension == ".yaml" || extension == ".yml") return FileKind::kApplication;
  return is_zip(path, extension) ? FileKind::kPackage : FileKind::kModel;
}

}  // namespace penstock
