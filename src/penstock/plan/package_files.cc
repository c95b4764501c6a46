// Lists, hashes and checks the files, and refuses links and files that plan.json does not list.
#include "penstock/plan/package_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "penstock/base/folder.h"
#include "penstock/base/hash.h"
#include "penstock/base/missing_folder.h"
#include "penstock/plan/paths.h"

namespace penstock::plan {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRepair =
    "; copy the package again, or split the model again if the change is wanted";

Code code_of(std::error_code cause) {
  if (cause == std::errc::no_such_file_or_directory) return Code::kNotFound;
  if (cause == std::errc::no_space_on_device || cause == std::errc::not_enough_memory)
    return Code::kResourceExhausted;
  return Code::kPermissionDenied;
}

/// A link on the way would let a package point at files outside it.
Status check_plain(const fs::path& folder, const std::string& path) {
  fs::path at = folder;
  for (const auto& part : fs::path(path)) {
    at /= part;
    std::error_code error;
    const auto status = fs::symlink_status(at, error);
    if (!fs::exists(status)) {
      return make_error(Code::kDataLoss, "is missing", kRepair).within({Where::kFile, path});
    }
    if (fs::is_symlink(status)) {
      return invalid_argument("path '", path, "': '", part.string(),
                              "' is a link, which may lead outside the package: replace it by "
                              "the file itself");
    }
  }
  std::error_code unknown;
  if (fs::is_regular_file(at, unknown)) return {};
  return make_error(Code::kDataLoss, "expected a plain file", kRepair).within({Where::kFile, path});
}

Status check_hash(const fs::path& folder, const std::string& path, const std::string& expected) {
  const auto problem = path_problem(path);
  if (!problem.empty()) return invalid_argument("file '", path, "' ", problem);
  PENSTOCK_CHECK_OK(check_plain(folder, path));
  PENSTOCK_TRY(const auto found, sha256_of_file(folder / path));
  if (found == expected) return {};
  return make_error(Code::kDataLoss, "expected SHA-256 ", expected, ", found ", found, kRepair)
      .within({Where::kFile, path});
}

/// The files below `folder`, their paths after `prefix`.
Status list_into(std::vector<std::string>& paths, const fs::path& folder,
                 const std::string& prefix) {
  std::error_code cause;
  const auto names = names_in(folder, cause);
  if (cause) return file_error(folder, "cannot be listed", cause);
  for (const auto& name : names) {
    const auto status = fs::symlink_status(folder / name, cause);
    if (cause) return file_error(folder / name, "cannot be looked at", cause);
    if (fs::is_directory(status)) {
      PENSTOCK_CHECK_OK(list_into(paths, folder / name, prefix + name + "/"));
    } else if (fs::is_regular_file(status)) {
      paths.push_back(prefix + name);
    } else {
      return invalid_argument("'", prefix, name,
                              "' is a link or a special file: expected plain files only");
    }
  }
  return {};
}

}  // namespace

Error file_error(const fs::path& path, std::string_view what, std::error_code cause) {
  return make_error(code_of(cause), "'", path.string(), "': ", what, ": ", cause.message());
}

Result<fs::path> make_private_folder(const fs::path& parent, const std::string& stem) {
  auto name = (parent / ("." + stem + ".XXXXXX")).string();
  if (mkdtemp(name.data()) != nullptr) return fs::path(name);
  const std::error_code reason(errno, std::generic_category());
  if (const auto about = about_missing_folder(parent); !about.empty()) {
    return not_found(reason.message(), about);
  }
  return file_error(parent, "no folder can be made in it", reason);
}

Result<std::vector<std::string>> list_files(const fs::path& folder) {
  std::vector<std::string> paths;
  PENSTOCK_CHECK_OK(list_into(paths, folder, ""));
  std::ranges::sort(paths);
  return paths;
}

Result<std::map<std::string, std::string>> hash_files(
    const fs::path& folder, const std::map<std::string, std::string>& known) {
  PENSTOCK_TRY(const auto paths, list_files(folder));
  std::map<std::string, std::string> hashes;
  for (const auto& path : paths) {
    if (path == kPlanFile) continue;
    if (const auto found = known.find(path); found != known.end()) {
      hashes.insert(*found);
      continue;
    }
    PENSTOCK_TRY(hashes[path], sha256_of_file(folder / path));
  }
  return hashes;
}

Status check_files(const fs::path& folder, const std::map<std::string, std::string>& hashes) {
  for (const auto& [path, hash] : hashes) PENSTOCK_CHECK_OK(check_hash(folder, path, hash));
  PENSTOCK_TRY(const auto paths, list_files(folder));
  for (const auto& path : paths) {
    if (path == kPlanFile || hashes.contains(path)) continue;
    return make_error(Code::kDataLoss, "is not listed in plan.json", kRepair,
                      "; or remove the file")
        .within({Where::kFile, path});
  }
  return {};
}

}  // namespace penstock::plan
