// Finds plugins in folders, loads them with dlopen, and compares interface version and build.
#include "penstock/backend/registry.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <dlfcn.h>
#include <execinfo.h>

#include "penstock/backend/engine_places.h"
#include "penstock/backend/plugin_places.h"
#include "penstock/base/missing_folder.h"

namespace penstock::backend {
namespace {

namespace fs = std::filesystem;

/// Where an exception passes through the C library (of an engine, from std::call_once), it loads
/// its unwinder, and ends the process if memory is out by then. So it does now.
void load_unwinder() {
  void* frame = nullptr;
  ::backtrace(&frame, 1);
}

/// The folder of the library (or program) that holds this function.
fs::path library_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&library_folder), &info) == 0) return {};
  std::error_code ignored;
  return fs::canonical(info.dli_fname, ignored).parent_path();
}

std::vector<fs::path> default_places() {
  std::vector<fs::path> places;
  for (const fs::path& place :
       {executable_folder() / "../lib/penstock/plugins", library_folder() / "penstock/plugins"}) {
    std::error_code ignored;
    const fs::path real = fs::canonical(place, ignored);
    if (!real.empty() && std::ranges::find(places, real) == places.end()) places.push_back(real);
  }
  return places;
}

Result<const PluginEntry*> open_plugin(const fs::path& file) {
  const std::string name = "plugin '" + file.string() + "'";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return not_found(name, ": no such file");
  // An absolute path: dlopen would look a bare name up among the system's libraries.
  void* library = dlopen(fs::absolute(file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return make_error(Code::kFailedPrecondition, name, ": ", dlerror());
  void* symbol = dlsym(library, "penstock_plugin");
  if (symbol == nullptr) {
    return make_error(Code::kFailedPrecondition, name,
                      ": no function penstock_plugin in it; a plugin ends with "
                      "PENSTOCK_PLUGIN(\"name\", Class)");
  }
  // Never closed, refused or not: what its initialisers started may still run.
  return reinterpret_cast<const PluginEntry* (*)()>(symbol)();
}

Status check_entry(const PluginEntry& entry, const fs::path& file) {
  const auto refused = [&file](const auto&... text) {
    return make_error(Code::kFailedPrecondition, "plugin '", file.string(), "': ", text...);
  };
  // The version first: of another version, nothing else in the entry can be read.
  if (entry.abi_version != kAbiVersion) {
    return refused("built for version ", entry.abi_version,
                   " of the plugin interface, this Penstock has version ", kAbiVersion,
                   "; rebuild the plugin with its headers");
  }
  if (std::string_view(entry.build) != kBuild) {
    return refused("built as '", entry.build, "', this Penstock as '", kBuild,
                   "'; rebuild the plugin with the same compiler and options");
  }
  return {};
}

}  // namespace

Registry Registry::load() {
  load_unwinder();
  Registry registry;
  std::vector<fs::path> places = places_of_environment();
  std::erase_if(places, is_absent);  // Told of below.
  std::ranges::copy(default_places(), std::back_inserter(places));
  for (const auto& place : places) {
    for (const auto& file : plugins_at(place)) {
      auto added = registry.add_plugin(file);
      if (!added && added.error().code != Code::kAlreadyExists) {
        registry.problems_.push_back(std::move(added).error().message());
      }
    }
  }
  std::ranges::move(empty_places(), std::back_inserter(registry.problems_));
  return registry;
}

Status Registry::add_plugin(const fs::path& file) {
  PENSTOCK_TRY(const PluginEntry* entry, open_plugin(file));
  PENSTOCK_CHECK_OK(check_entry(*entry, file));
  const std::string name = entry->name;
  if (std::ranges::find(names_, name) != names_.end()) {
    return make_error(Code::kAlreadyExists, "plugin '", file.string(), "': backend '", name,
                      "' is there already");
  }
  try {
    add_named(name, std::shared_ptr<Backend>(entry->create()));
  } catch (const std::exception& e) {
    return internal_error("plugin '", file.string(), "': ", e.what());
  }
  return {};
}

void Registry::add(std::shared_ptr<Backend> backend) {
  std::string name = backend->describe().name;
  add_named(std::move(name), std::move(backend));
}

void Registry::add_named(std::string name, std::shared_ptr<Backend> backend) {
  names_.push_back(std::move(name));
  backends_.push_back(std::move(backend));
}

Result<std::shared_ptr<Backend>> Registry::find(std::string_view name) const {
  const auto at = std::ranges::find(names_, name);
  if (at != names_.end()) return backends_[static_cast<std::size_t>(at - names_.begin())];
  const std::string there = names_.empty() ? "none" : join(names_, ", ");
  const std::string met = problems_.empty() ? "" : "; not loaded: " + join(problems_, "; ");
  return not_found("there is none of that name; there are: ", there, met,
                   "; PENSTOCK_PLUGIN_PATH names folders with further ones")
      .within({Where::kBackend, std::string(name)});
}

std::vector<Accelerator> Registry::accelerators() const {
  std::vector<Accelerator> found;
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    device::Device device{.host = {}, .kind = device::Device::Kind::kCuda, .cpus = {}};
    for (; backends_[i]->accepts(device); ++device.index) {
      auto name = backends_[i]->device_name(device);
      if (name.empty()) break;
      found.push_back({device::to_string(device), std::move(name), names_[i]});
    }
  }
  return found;
}

}  // namespace penstock::backend
