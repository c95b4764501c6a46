// start_serving() and start_watching(): by the library that has the ports.
#include <dlfcn.h>

#include "penstock/gateway/serving.h"
#include "penstock/gateway/watching.h"

namespace penstock::gateway {
namespace {

constexpr const char* kLibrary = "libpenstock_serve.so.0";

/// Beside the library that this is a part of.
std::filesystem::path place_of_library() {
  Dl_info own{};
  if (::dladdr(reinterpret_cast<const void*>(&place_of_library), &own) == 0) return kLibrary;
  return std::filesystem::path(own.dli_fname).parent_path() / kLibrary;
}

/// A function of it, by name.
Result<void*> entry_of(const char* name) {
  // Never closed: gRPC keeps threads.
  void* library = ::dlopen(place_of_library().c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* entry = library == nullptr ? nullptr : ::dlsym(library, name);
  if (entry != nullptr) return entry;
  return make_error(
      Code::kUnavailable, "what serves models and pages cannot be loaded: ", ::dlerror(),
      "; a Debian system has it with the package penstock-serving; built from sources, Penstock "
      "needs Debian's libgrpc++1.51 and libprometheus-cpp-core1.0");
}

}  // namespace

Result<std::unique_ptr<Serving>> start_serving(const Options& options,
                                               const backend::Registry& backends) {
  using Entry = void(const Options&, const backend::Registry&, Result<std::unique_ptr<Serving>>&);
  PENSTOCK_TRY(void* const entry, entry_of("penstock_start_serving"));
  Result<std::unique_ptr<Serving>> made = std::unique_ptr<Serving>();
  reinterpret_cast<Entry*>(entry)(options, backends, made);
  return made;
}

Result<std::unique_ptr<Watching>> start_watching(std::shared_ptr<const pipeline::Pipeline> pipeline,
                                                 const WatchOptions& options) {
  using Entry = void(std::shared_ptr<const pipeline::Pipeline>, const WatchOptions&,
                     Result<std::unique_ptr<Watching>>&);
  PENSTOCK_TRY(void* const entry, entry_of("penstock_start_watching"));
  Result<std::unique_ptr<Watching>> made = std::unique_ptr<Watching>();
  reinterpret_cast<Entry*>(entry)(std::move(pipeline), options, made);
  return made;
}

}  // namespace penstock::gateway
