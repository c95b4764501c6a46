// The backend `remote`: what runs on other machines.
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <dlfcn.h>

#include "compile.h"
#include "far_memory.h"
#include "penstock/backend/backend.h"

namespace penstock::remote {
namespace {

constexpr const char* kLibrary = "libpenstock_remote.so";

/// Once, however many ask: never closed, as gRPC keeps threads.
Result<Compile> load() {
  static void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  void* const found = library == nullptr ? nullptr : ::dlsym(library, kCompile);
  if (found != nullptr) return reinterpret_cast<Compile>(found);
  return make_error(Code::kUnavailable, "backend 'remote': '", kLibrary,
                    "' cannot be loaded: ", ::dlerror());
}

/// Workers that cannot reach one another need it otherwise.
bool may_be_direct() {
  const char* said = std::getenv("PENSTOCK_REMOTE_DIRECT");  // NOLINT(concurrency-mt-unsafe)
  return said == nullptr || std::string_view(said) != "false";
}

class RemoteBackend final : public backend::Backend {
 public:
  [[nodiscard]] backend::Description describe() const override {
    backend::Description description;
    description.name = "remote";
    description.engine_version = "2";  // Of the Open Inference Protocol.
    return description;
  }

  // Whatever a machine of its own can run; nothing is put there but by a plan's devices.
  [[nodiscard]] std::string rules() const override {
    return R"({"version": 1, "rule": {"combine": {"all": true}}})";
  }

  [[nodiscard]] bool accepts(const device::Device& device) const override {
    return device.is_remote();
  }

  // What a server of others makes comes here at once: the protocol has nothing else.
  [[nodiscard]] std::shared_ptr<backend::Memory> memory(
      const device::Device& device) const override {
    const bool is_worker = device.is_remote() && device.kind != device::Device::Kind::kServer;
    return is_worker && may_be_direct() ? far_memory() : nullptr;
  }

  Result<std::unique_ptr<backend::Executable>> compile(
      const backend::CompileRequest& request) override {
    PENSTOCK_TRY(const Compile compiles, load());
    Compiled made = make_error(Code::kInternal, "nothing was compiled");
    compiles(request, made);
    return made;
  }
};

}  // namespace
}  // namespace penstock::remote

PENSTOCK_PLUGIN("remote", penstock::remote::RemoteBackend)
