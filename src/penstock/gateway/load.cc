// start_serving(): by the library that has the ports.
#include <dlfcn.h>

#include "penstock/gateway/serving.h"

namespace penstock::gateway {
namespace {

constexpr const char* kLibrary = "libpenstock_serve.so.0";
constexpr const char* kEntry = "penstock_start_serving";
using Entry = void(const Options&, const backend::Registry&, Result<std::unique_ptr<Serving>>&);

/// Beside the library that this is a part of.
std::filesystem::path place_of_library() {
  Dl_info own{};
  if (::dladdr(reinterpret_cast<const void*>(&place_of_library), &own) == 0) return kLibrary;
  return std::filesystem::path(own.dli_fname).parent_path() / kLibrary;
}

}  // namespace

Result<std::unique_ptr<Serving>> start_serving(const Options& options,
                                               const backend::Registry& backends) {
  // Never closed: gRPC keeps threads.
  void* library = ::dlopen(place_of_library().c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* entry = library == nullptr ? nullptr : ::dlsym(library, kEntry);
  if (entry == nullptr) {
    return make_error(
        Code::kUnavailable, "what serves models cannot be loaded: ", ::dlerror(),
        "; a Debian system has it with the package penstock-serving; built from sources, Penstock "
        "needs Debian's libgrpc++1.51 and libprometheus-cpp-core1.0");
  }
  Result<std::unique_ptr<Serving>> made = std::unique_ptr<Serving>();
  reinterpret_cast<Entry*>(entry)(options, backends, made);
  return made;
}

}  // namespace penstock::gateway
