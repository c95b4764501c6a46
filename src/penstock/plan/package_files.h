// Files and temporary folders of packages.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "penstock/base/result.h"

namespace penstock::plan {

inline constexpr const char* kPlanFile = "plan.json";

/// "folder 'x': cannot be made: Permission denied", with the code that fits the cause.
Error file_error(const std::filesystem::path& path, std::string_view what, std::error_code cause);

/// A new private folder (mode 0700) `<parent>/.<stem>.XXXXXX`.
Result<std::filesystem::path> make_private_folder(const std::filesystem::path& parent,
                                                  const std::string& stem);

/// Paths of all plain files under `folder`, relative, with '/', sorted.
/// \error kInvalidArgument  one is a link or a special file.
Result<std::vector<std::string>> list_files(const std::filesystem::path& folder);

/// SHA-256 of each file under `folder` but plan.json; those of `known` are taken, not computed.
Result<std::map<std::string, std::string>> hash_files(
    const std::filesystem::path& folder, const std::map<std::string, std::string>& known);

/// Compares the files under `folder` with their hashes. \error as load_package().
Status check_files(const std::filesystem::path& folder,
                   const std::map<std::string, std::string>& hashes);

}  // namespace penstock::plan
