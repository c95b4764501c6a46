// Loads libpenstock_hosts_reach.so beside this library with dlopen(), and never closes it.
#include "penstock/site/reach.h"

#include <filesystem>

#include <dlfcn.h>

namespace penstock::site {
namespace {

constexpr const char* kLibrary = "libpenstock_hosts_reach.so";

/// Beside the library that this is a part of.
std::filesystem::path place_of_library() {
  Dl_info own{};
  if (::dladdr(reinterpret_cast<const void*>(&place_of_library), &own) == 0) return kLibrary;
  return std::filesystem::path(own.dli_fname).parent_path() / kLibrary;
}

}  // namespace

Result<hosts::Reach> load_reach() {
  // Never closed: gRPC keeps threads.
  void* library = ::dlopen(place_of_library().c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* make = library == nullptr ? nullptr : ::dlsym(library, kMakeReach);
  if (make == nullptr) {
    return not_found("what reaches other hosts cannot be loaded: ", ::dlerror(),
                     "; it needs Debian's libgrpc++1.51");
  }
  hosts::Reach reach;
  reinterpret_cast<MakeReach>(make)(reach);
  return reach;
}

}  // namespace penstock::site
