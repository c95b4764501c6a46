// Looks for NVIDIA's libraries as for every engine: variables, Python's packages, the system.
#include "libraries.h"

#include "symbols.h"

namespace penstock::cuda {
namespace {

/// Any address in this plugin.
const int kHere = 0;

#define PENSTOCK_CUDA_FIND(name, symbol, parameters) \
  PENSTOCK_CHECK_OK(find_symbol(library, symbol, found->name));

Result<std::shared_ptr<const Nvrtc>> open_nvrtc(const std::filesystem::path& file) {
  PENSTOCK_TRY(const auto library, backend::LoadedLibrary::open(file));
  auto found = std::make_shared<Nvrtc>();
  PENSTOCK_NVRTC_FUNCTIONS(PENSTOCK_CUDA_FIND)
  int major = 0;
  int minor = 0;
  PENSTOCK_CHECK_OK(check_library(found->version(&major, &minor), "NVRTC", "version"));
  found->version_text = concat(major, ".", minor);
  found->file = library.file_of("nvrtcVersion");
  return std::shared_ptr<const Nvrtc>(std::move(found));
}

Result<std::shared_ptr<const CublasLt>> open_cublaslt(const std::filesystem::path& file) {
  PENSTOCK_TRY(const auto library, backend::LoadedLibrary::open(file));
  auto found = std::make_shared<CublasLt>();
  PENSTOCK_CUBLASLT_FUNCTIONS(PENSTOCK_CUDA_FIND)
  return std::shared_ptr<const CublasLt>(std::move(found));
}

Result<std::shared_ptr<const Cudnn>> open_cudnn(const std::filesystem::path& file) {
  PENSTOCK_TRY(const auto library, backend::LoadedLibrary::open(file));
  auto found = std::make_shared<Cudnn>();
  PENSTOCK_CUDNN_FUNCTIONS(PENSTOCK_CUDA_FIND)
  return std::shared_ptr<const Cudnn>(std::move(found));
}
#undef PENSTOCK_CUDA_FIND

/// In the toolkit's folders and, of wheels, whatever folder of `nvidia` the package is in.
backend::EngineLibrary sought(std::string title, std::string package, std::string variable,
                              std::string file, std::vector<std::filesystem::path> system) {
  return {.title = std::move(title),
          .package = std::move(package),
          .variable = std::move(variable),
          .file = std::move(file),
          .package_folder = "nvidia/*/lib",
          .system = std::move(system),
          .plugin = &kHere};
}

}  // namespace

Result<std::shared_ptr<const Nvrtc>> load_nvrtc() {
  return backend::find_engine(
      sought("NVRTC (CUDA's compiler)", "nvidia-cuda-nvrtc", "PENSTOCK_CUDA", "libnvrtc.so",
             {"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"}),
      open_nvrtc);
}

Result<std::shared_ptr<const CublasLt>> load_cublaslt() {
  return backend::find_engine(
      sought("cuBLASLt", "nvidia-cublas", "PENSTOCK_CUDA", "libcublasLt.so",
             {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so"}),
      open_cublaslt);
}

Result<std::shared_ptr<const Cudnn>> load_cudnn() {
  return backend::find_engine(
      sought("cuDNN 9", "nvidia-cudnn-cu13", "PENSTOCK_CUDNN", "libcudnn.so", {"libcudnn.so.9"}),
      open_cudnn);
}

Status check_library(int status, std::string_view library, std::string_view doing) {
  if (status == 0) return {};
  return make_error(Code::kUnknown, library, ": ", doing, ": failed with status ", status);
}

}  // namespace penstock::cuda
