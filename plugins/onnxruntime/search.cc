#include "search.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>

#include <dlfcn.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::ort {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibraryPattern = "libonnxruntime.so*";
constexpr const char* kInsidePackage = "onnxruntime/capi";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Matches of a shell pattern, the highest version number first.
std::vector<fs::path> matches(const fs::path& pattern) {
  glob_t found{};
  std::vector<fs::path> paths;
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  std::ranges::sort(paths, [](const fs::path& a, const fs::path& b) {
    return strverscmp(a.c_str(), b.c_str()) > 0;
  });
  return paths;
}

/// Python's packages below `prefix`, whatever Python's version: `prefix/lib/python3.11/...`.
std::vector<fs::path> below_python(const fs::path& prefix, const char* packages) {
  return matches(prefix / "lib/python3*" / packages / kInsidePackage / kLibraryPattern);
}

/// A file is itself; a folder is the libraries in it.
std::vector<fs::path> named(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return matches(path / kLibraryPattern);
  return {path};
}

/// The folder of this plugin's own file.
fs::path plugin_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&plugin_folder), &info) == 0) return {};
  std::error_code ignored;
  return fs::canonical(info.dli_fname, ignored).parent_path();
}

fs::path executable_folder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

/// Nobody else could have put something there for us to load.
bool owned_by_us(const fs::path& folder) {
  struct stat info{};
  if (stat(folder.c_str(), &info) != 0) return false;
  return (info.st_uid == geteuid() || info.st_uid == 0) && (info.st_mode & S_IWOTH) == 0;
}

/// `.venv` of `folder` and of each folder above it.
void add_environments_above(const fs::path& folder, std::set<fs::path>& seen,
                            std::vector<Place>& places) {
  for (fs::path at = folder; !at.empty(); at = at.parent_path()) {
    const fs::path environment = at / ".venv";
    if (seen.insert(environment).second && owned_by_us(environment)) {
      places.push_back({"the Python environment '" + environment.string() + "'",
                        below_python(environment, "site-packages")});
    }
    if (at == at.root_path()) return;
  }
}

void add_engine_path(std::vector<Place>& places) {
  Place place{"PENSTOCK_ENGINE_PATH", {}};
  std::istringstream folders(variable("PENSTOCK_ENGINE_PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (folder.empty()) continue;
    std::ranges::copy(matches(fs::path(folder) / kLibraryPattern),
                      std::back_inserter(place.libraries));
  }
  places.push_back(std::move(place));
}

/// Beside an installed Penstock: its own library folder, and Python's packages when Penstock is
/// one of them.
void add_own_prefix(const fs::path& folder, std::vector<Place>& places) {
  if (folder.empty()) return;
  Place place{"the folders beside Penstock's plugins", matches(folder / kLibraryPattern)};
  const fs::path libraries = folder.parent_path().parent_path();
  std::ranges::copy(matches(libraries / kLibraryPattern), std::back_inserter(place.libraries));
  for (fs::path at = folder; at != at.root_path(); at = at.parent_path()) {
    if (at.filename() != "site-packages" && at.filename() != "dist-packages") continue;
    std::ranges::copy(matches(at / kInsidePackage / kLibraryPattern),
                      std::back_inserter(place.libraries));
  }
  places.push_back(std::move(place));
}

void add_python(std::vector<Place>& places) {
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string prefix = variable(name);
    if (prefix.empty()) continue;
    places.push_back(
        {std::string(name) + " ('" + prefix + "')", below_python(prefix, "site-packages")});
  }
  Place user{"Python's packages of the user and of the system", {}};
  const std::string home = variable("HOME");
  const auto add = [&user](const fs::path& prefix, const char* packages) {
    std::ranges::copy(below_python(prefix, packages), std::back_inserter(user.libraries));
  };
  if (!home.empty()) add(fs::path(home) / ".local", "site-packages");
  for (const char* prefix : {"/usr/local", "/usr"}) {
    add(prefix, "site-packages");
    add(prefix, "dist-packages");
  }
  places.push_back(std::move(user));
}

}  // namespace

std::vector<Place> engine_places() {
  if (const std::string file = variable("PENSTOCK_ONNXRUNTIME"); !file.empty()) {
    return {{"PENSTOCK_ONNXRUNTIME ('" + file + "')", named(file)}};
  }
  std::vector<Place> places;
  std::set<fs::path> seen;
  std::error_code ignored;
  add_engine_path(places);
  add_own_prefix(plugin_folder(), places);
  add_environments_above(executable_folder(), seen, places);
  add_environments_above(plugin_folder(), seen, places);
  add_environments_above(fs::current_path(ignored), seen, places);
  add_python(places);
  places.push_back({"the system's libraries", {"libonnxruntime.so.1", "libonnxruntime.so"}});
  return places;
}

}  // namespace penstock::ort
