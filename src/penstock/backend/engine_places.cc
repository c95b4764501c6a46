// Looks in variables, beside the plugin, in Python environments and the system; uses dlopen.
#include "penstock/backend/engine_places.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>

#include <dlfcn.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base/memory_left.h"

namespace penstock::backend {
namespace {

namespace fs = std::filesystem;

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

std::vector<fs::path> libraries_in(const fs::path& folder, const EngineLibrary& engine) {
  return matches(folder / (engine.file + "*"));
}

/// In a Python environment, whatever Python's version: `prefix/lib/python3.11/...`.
std::vector<fs::path> below_python(const fs::path& prefix, const char* packages,
                                   const EngineLibrary& engine) {
  if (engine.package_folder.empty()) return libraries_in(prefix / "lib", engine);
  return libraries_in(prefix / "lib/python3*" / packages / engine.package_folder, engine);
}

/// A file is itself; a folder is the libraries in it.
std::vector<fs::path> named(const fs::path& path, const EngineLibrary& engine) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return libraries_in(path, engine);
  return {path};
}

/// The folder of the plugin's own file.
fs::path plugin_folder(const EngineLibrary& engine) {
  Dl_info info{};
  if (engine.plugin == nullptr || dladdr(engine.plugin, &info) == 0) return {};
  std::error_code ignored;
  return fs::canonical(info.dli_fname, ignored).parent_path();
}

/// Nobody else could have put something there for us to load.
bool owned_by_us(const fs::path& folder) {
  struct stat info{};
  if (stat(folder.c_str(), &info) != 0) return false;
  return (info.st_uid == geteuid() || info.st_uid == 0) && (info.st_mode & S_IWOTH) == 0;
}

void add_environments_above(const fs::path& folder, const EngineLibrary& engine,
                            std::set<fs::path>& seen, std::vector<EnginePlace>& places) {
  for (const auto& environment : environments_above(folder)) {
    if (!seen.insert(environment).second) continue;
    places.push_back({"the Python environment '" + environment.string() + "'",
                      below_python(environment, "site-packages", engine)});
  }
}

void add_engine_path(const EngineLibrary& engine, std::vector<EnginePlace>& places) {
  EnginePlace place{"PENSTOCK_ENGINE_PATH", {}};
  std::istringstream folders(variable("PENSTOCK_ENGINE_PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (folder.empty()) continue;
    std::ranges::copy(libraries_in(folder, engine), std::back_inserter(place.libraries));
  }
  places.push_back(std::move(place));
}

/// Beside an installed Penstock: its own library folder, and Python's packages when Penstock is
/// one of them.
void add_own_prefix(const fs::path& folder, const EngineLibrary& engine,
                    std::vector<EnginePlace>& places) {
  if (folder.empty()) return;
  EnginePlace place{"the folders beside Penstock's plugins", libraries_in(folder, engine)};
  const fs::path libraries = folder.parent_path().parent_path();
  std::ranges::copy(libraries_in(libraries, engine), std::back_inserter(place.libraries));
  for (fs::path at = folder; at != at.root_path(); at = at.parent_path()) {
    if (at.filename() != "site-packages" && at.filename() != "dist-packages") continue;
    const fs::path inside =
        engine.package_folder.empty() ? at.parent_path().parent_path() : at / engine.package_folder;
    std::ranges::copy(libraries_in(inside, engine), std::back_inserter(place.libraries));
  }
  places.push_back(std::move(place));
}

void add_python(const EngineLibrary& engine, std::vector<EnginePlace>& places) {
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string prefix = variable(name);
    if (prefix.empty()) continue;
    places.push_back(
        {std::string(name) + " ('" + prefix + "')", below_python(prefix, "site-packages", engine)});
  }
  EnginePlace user{"Python's packages of the user and of the system", {}};
  const std::string home = variable("HOME");
  const auto add = [&](const fs::path& prefix, const char* packages) {
    std::ranges::copy(below_python(prefix, packages, engine), std::back_inserter(user.libraries));
  };
  if (!home.empty()) add(fs::path(home) / ".local", "site-packages");
  for (const char* prefix : {"/usr/local", "/usr"}) {
    add(prefix, "site-packages");
    add(prefix, "dist-packages");
  }
  places.push_back(std::move(user));
}

}  // namespace

fs::path executable_folder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

std::vector<fs::path> environments_above(const fs::path& folder) {
  std::vector<fs::path> environments;
  for (fs::path at = folder; !at.empty(); at = at.parent_path()) {
    if (owned_by_us(at / ".venv")) environments.push_back(at / ".venv");
    if (at == at.root_path()) break;
  }
  return environments;
}

std::vector<EnginePlace> engine_places(const EngineLibrary& engine) {
  if (const std::string file = variable(engine.variable.c_str()); !file.empty()) {
    return {{engine.variable + " ('" + file + "')", named(file, engine)}};
  }
  std::vector<EnginePlace> places;
  std::set<fs::path> seen;
  std::error_code ignored;
  const fs::path beside = plugin_folder(engine);
  add_engine_path(engine, places);
  add_own_prefix(beside, engine, places);
  add_environments_above(executable_folder(), engine, seen, places);
  add_environments_above(beside, engine, seen, places);
  add_environments_above(fs::current_path(ignored), engine, seen, places);
  add_python(engine, places);
  places.push_back({"the system's libraries", engine.system});
  return places;
}

Error no_engine(const EngineLibrary& engine, const std::vector<std::string>& tried) {
  return make_error(Code::kUnavailable, "no usable ", engine.title, " found; sought in ",
                    join(tried, "; "), "; install one with 'pip install ", engine.package,
                    "', or set ", engine.variable, " to ", engine.file, " or its folder");
}

Error no_room_for_engine(const EngineLibrary& engine, const fs::path& library, Error error) {
  return std::move(error).within(
      concat(engine.title, ", '", library.string(), "', cannot be loaded"));
}

Result<LoadedLibrary> LoadedLibrary::open(const fs::path& file) {
  // What an engine takes while it starts, and what the stages' threads, which start beside it, have
  // the heap set aside (64 MiB of addresses for each): an engine that runs out then ends the
  // process.
  constexpr std::size_t kBesideTheFile = std::size_t{256} << 20U;
  std::error_code unknown;
  const auto bytes = fs::file_size(file, unknown);  // Unknown where the loader searches for a name.
  PENSTOCK_CHECK_OK(check_memory_left((unknown ? 0 : bytes) + kBesideTheFile));
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return make_error(Code::kUnavailable, dlerror());
  return LoadedLibrary(file, handle);
}

Result<void*> LoadedLibrary::find(const char* name) const {
  void* symbol = dlsym(handle_, name);
  if (symbol == nullptr) {
    return make_error(Code::kUnavailable, file_.string(), ": no ", name, " in it");
  }
  return symbol;
}

fs::path LoadedLibrary::file_of(const char* name) const {
  Dl_info info{};
  const void* symbol = dlsym(handle_, name);
  return symbol != nullptr && dladdr(symbol, &info) != 0 ? fs::path(info.dli_fname) : file_;
}

}  // namespace penstock::backend
