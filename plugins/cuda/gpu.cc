// Opens devices, keeps their kernels, and allocates.
#include "gpu.h"

#include <array>
#include <utility>

#include "compiler.h"

namespace penstock::cuda {

Result<std::shared_ptr<const Toolchain>> load_toolchain() {
  auto toolchain = std::make_shared<Toolchain>();
  PENSTOCK_TRY(toolchain->driver, load_driver());
  PENSTOCK_TRY(toolchain->nvrtc, load_nvrtc());
  toolchain->version = toolchain->nvrtc->version_text;
  toolchain->file = toolchain->nvrtc->file;
  return std::shared_ptr<const Toolchain>(std::move(toolchain));
}

Result<std::shared_ptr<Gpu>> Gpu::get(const std::shared_ptr<const Toolchain>& toolchain,
                                      int ordinal) {
  static std::mutex mutex;
  static std::map<int, std::shared_ptr<Gpu>>& opened = *new std::map<int, std::shared_ptr<Gpu>>();
  const std::scoped_lock lock(mutex);
  if (const auto found = opened.find(ordinal); found != opened.end()) return found->second;
  if (ordinal < 0 || ordinal >= toolchain->driver->devices) {
    return make_error(Code::kNotFound, "there is no device cuda:", ordinal, "; the driver shows ",
                      toolchain->driver->devices);
  }
  std::shared_ptr<Gpu> gpu(new Gpu(toolchain, ordinal));
  PENSTOCK_CHECK_OK(gpu->open());
  opened.emplace(ordinal, gpu);
  return gpu;
}

Status Gpu::open() {
  int device = 0;
  int major = 0;
  int minor = 0;
  PENSTOCK_CHECK_OK(check(driver().device(&device, ordinal_), "device"));
  const auto attribute = [&](int which, int& value) {
    return check(driver().device_attribute(&value, which, device), "attribute of the device");
  };
  PENSTOCK_CHECK_OK(attribute(kAttributeCapabilityMajor, major));
  PENSTOCK_CHECK_OK(attribute(kAttributeCapabilityMinor, minor));
  PENSTOCK_CHECK_OK(attribute(kAttributeMultiprocessors, multiprocessors_));
  architecture_ = concat("sm_", major, minor);
  std::array<char, 256> name{};
  PENSTOCK_CHECK_OK(
      check(driver().device_name(name.data(), static_cast<int>(name.size()), device), "name"));
  name_ = name.data();
  return check(driver().retain_context(&context_, device), "context");
}

Status Gpu::use() {
  return check(driver().set_context(context_), "choosing the device");
}

Status Gpu::check(DriverResult result, std::string_view doing) {
  if (is_loss(result)) lost_ = true;
  return driver().check(result, doing);
}

Result<Function> Gpu::kernel(const std::string& source) {
  const std::scoped_lock lock(cache_mutex_);
  if (const auto found = kernels_.find(source); found != kernels_.end()) return found->second;
  PENSTOCK_TRY(const auto code, compile(*toolchain_->nvrtc, source, architecture_));
  PENSTOCK_CHECK_OK(use());
  Module module = nullptr;
  Function function = nullptr;
  PENSTOCK_CHECK_OK(check(driver().load_module(&module, code.data()), "loading a kernel"));
  PENSTOCK_CHECK_OK(check(driver().module_function(&function, module, "kernel"), "kernel"));
  kernels_.emplace(source, function);
  return function;
}

Result<Gpu::Products> Gpu::products() {
  const std::scoped_lock lock(cache_mutex_);
  if (lt_handle_ == nullptr) {
    PENSTOCK_TRY(cublaslt_, load_cublaslt());
    PENSTOCK_CHECK_OK(use());
    PENSTOCK_CHECK_OK(check_library(cublaslt_->create(&lt_handle_), "cuBLASLt", "handle"));
  }
  return Products{cublaslt_.get(), lt_handle_};
}

Result<Gpu::Convolutions> Gpu::convolutions() {
  PENSTOCK_TRY(const auto first, products());
  static_cast<void>(first);
  const std::scoped_lock lock(cache_mutex_);
  if (dnn_handle_ == nullptr) {
    PENSTOCK_TRY(cudnn_, load_cudnn());
    PENSTOCK_CHECK_OK(use());
    PENSTOCK_CHECK_OK(check_library(cudnn_->create(&dnn_handle_), "cuDNN", "handle"));
  }
  return Convolutions{cudnn_.get(), dnn_handle_};
}

Result<DeviceStorage> Gpu::allocate(std::size_t bytes) {
  PENSTOCK_CHECK_OK(use());
  DevicePointer data = 0;
  PENSTOCK_CHECK_OK(check(driver().allocate(&data, bytes),
                          concat("allocating ", bytes, " bytes on cuda:", ordinal_)));
  return DeviceStorage(new DevicePointer(data), [gpu = shared_from_this()](const DevicePointer* p) {
    if (gpu->use()) gpu->driver().free(*p);
    delete p;
  });
}

Result<PinnedStorage> Gpu::allocate_pinned(std::size_t bytes) {
  PENSTOCK_CHECK_OK(use());
  void* data = nullptr;
  PENSTOCK_CHECK_OK(check(driver().allocate_host(&data, bytes, kHostAllocPortable),
                          concat("allocating ", bytes, " pinned bytes of the host's memory")));
  return PinnedStorage(static_cast<std::byte*>(data), [gpu = shared_from_this()](std::byte* p) {
    if (gpu->use()) gpu->driver().free_host(p);
  });
}

}  // namespace penstock::cuda
