#include "engine.h"

#include "penstock/backend/engine_places.h"

namespace penstock::onednn {
namespace {

constexpr int kMajor = 3;

template <typename Function>
Status find(const backend::LoadedLibrary& library, const char* name, Function*& function) {
  PENSTOCK_TRY(function, library.function<Function>(name));
  return {};
}

Status find_functions(const backend::LoadedLibrary& library, Api& api) {
#define PENSTOCK_DNNL_FIND(name) PENSTOCK_CHECK_OK(find(library, "dnnl_" #name, api.name));
  PENSTOCK_DNNL_FUNCTIONS(PENSTOCK_DNNL_FIND)
#undef PENSTOCK_DNNL_FIND
  return {};
}

Result<std::shared_ptr<const Engine>> open(const std::filesystem::path& file) {
  const auto unusable = [&](const auto&... text) {
    return make_error(Code::kUnavailable, file.string(), ": ", text...);
  };
  PENSTOCK_TRY(const auto library, backend::LoadedLibrary::open(file));
  auto engine = std::make_shared<Engine>();
  PENSTOCK_TRY(engine->api.version, library.function<const dnnl_version_t*()>("dnnl_version"));
  const dnnl_version_t& version = *engine->api.version();
  engine->version = concat(version.major, ".", version.minor, ".", version.patch);
  if (version.major != kMajor) return unusable("version ", engine->version, ", needs ", kMajor);
  PENSTOCK_CHECK_OK(find_functions(library, engine->api));
  if (version.cpu_runtime != DNNL_RUNTIME_OMP) {
    return unusable("built for another threading runtime, needs OpenMP");
  }
  PENSTOCK_TRY(engine->threads, ThreadRuntime::of(library));
  engine->file = library.file_of("dnnl_version");
  PENSTOCK_CHECK_OK(engine->check(engine->api.engine_create(&engine->cpu, dnnl_cpu, 0), "engine"));
  return std::shared_ptr<const Engine>(std::move(engine));
}

/// Any address in this plugin.
const int kHere = 0;

}  // namespace

Status Engine::check(dnnl_status_t status, std::string_view doing) const {
  switch (status) {
    case dnnl_success:
      return {};
    case dnnl_out_of_memory:
      return make_error(Code::kResourceExhausted, "oneDNN: ", doing, ": out of memory");
    case dnnl_unimplemented:
      return make_error(Code::kUnimplemented, "oneDNN: ", doing, ": not implemented");
    case dnnl_invalid_arguments:
      return make_error(Code::kUnimplemented, "oneDNN: ", doing, ": refused as invalid");
    default:
      return make_error(Code::kUnknown, "oneDNN: ", doing, ": failed with status ",
                        static_cast<int>(status));
  }
}

Result<std::shared_ptr<const Engine>> load_engine() {
  prepare_environment();
  const backend::EngineLibrary sought{.title = "oneDNN",
                                      .package = "onednn-cpu-gomp",
                                      .variable = "PENSTOCK_ONEDNN",
                                      .file = "libdnnl.so",
                                      .package_folder = "",
                                      .system = {"libdnnl.so.3"},
                                      .plugin = &kHere};
  return backend::find_engine(sought, open);
}

}  // namespace penstock::onednn
