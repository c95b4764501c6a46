// The cuda backend: library style on an NVIDIA GPU, its libraries found at run time.
#include <map>
#include <mutex>
#include <utility>

#include "builder.h"
#include "memory.h"
#include "penstock/backend/load_once.h"
#include "penstock/backend/request.h"
#include "penstock/lower/model.h"
#include "rules.h"

namespace penstock::cuda {
namespace {

using backend::CompileRequest;

constexpr const char* kTf32 = "tf32";

class Executable final : public backend::Executable {
 public:
  explicit Executable(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

  [[nodiscard]] std::span<const backend::Port> inputs() const override { return program_->inputs; }
  [[nodiscard]] std::span<const backend::Port> outputs() const override {
    return program_->outputs;
  }
  Result<std::unique_ptr<backend::Context>> create_context() override {
    return cuda::create_context(program_);
  }
  /// One copies in, one computes, one copies out.
  [[nodiscard]] int recommended_contexts() const override { return 3; }
  [[nodiscard]] bool is_asynchronous() const override { return true; }
  [[nodiscard]] bool is_lost() const override { return program_->gpu->is_lost(); }
  /// The contexts' waiters, and those that the driver and the libraries start.
  [[nodiscard]] int idle_threads() const override { return 16; }

 private:
  std::shared_ptr<const Program> program_;
};

Result<Settings> settings_of(const CompileRequest& request) {
  Settings settings{.optimize = request.optimize, .tf32 = false};
  for (const auto& [key, value] : request.options) {
    if (key != kTf32) {
      return invalid_argument("backend option 'cuda:", key, "': unknown; the cuda backend has '",
                              kTf32, "'");
    }
    if (value != "0" && value != "1") {
      return invalid_argument("backend option 'cuda:", key, "': expected 0 or 1, found '", value,
                              "'");
    }
    settings.tf32 = value == "1";
  }
  if (request.precision != backend::Precision::kF32) {
    return make_error(Code::kUnimplemented, "the cuda backend computes in f32, found ",
                      backend::to_string(request.precision), "; its option tf32 is faster");
  }
  return settings;
}

class Backend final : public backend::Backend {
 public:
  [[nodiscard]] backend::Description describe() const override {
    auto description = toolchain_.describe("cuda");
    description.whole_graph = false;
    return description;
  }

  [[nodiscard]] std::string rules() const override { return cuda::rules(); }

  [[nodiscard]] bool accepts(const device::Device& device) const override {
    return device.host.empty() && device.kind == device::Device::Kind::kCuda;
  }

  [[nodiscard]] std::shared_ptr<backend::Memory> memory(
      const device::Device& device) const override {
    const std::scoped_lock lock(mutex_);
    auto& memory = memories_[device.index];
    if (memory == nullptr) {
      memory = std::make_shared<DeviceMemory>(
          device.index, [this, ordinal = device.index] { return gpu(ordinal); });
    }
    return memory;
  }

  [[nodiscard]] std::string device_name(const device::Device& device) const override {
    const auto opened = gpu(device.index);
    return opened ? (*opened)->name() : "";
  }

  Result<std::unique_ptr<backend::Executable>> compile(const CompileRequest& given) override {
    PENSTOCK_TRY(const auto request, backend::with_precision(given));
    if (!accepts(request.device)) {
      return make_error(Code::kUnimplemented,
                        "the cuda backend runs on devices such as cuda:0, "
                        "found ",
                        device::to_string(request.device));
    }
    PENSTOCK_TRY(const auto settings, settings_of(request));
    PENSTOCK_TRY(const auto device, gpu(request.device.index));
    PENSTOCK_TRY(const auto model, lower::model_of(request));
    Builder builder(device, model, settings);
    PENSTOCK_TRY(auto program, builder.build());
    program->spin_ns = std::chrono::nanoseconds(request.spin).count();
    return std::unique_ptr<backend::Executable>(std::make_unique<Executable>(std::move(program)));
  }

 private:
  Result<std::shared_ptr<Gpu>> gpu(int ordinal) const {
    const auto& loaded = toolchain_();
    if (!loaded) return Error(loaded.error());
    return Gpu::get(*loaded, ordinal);
  }

  backend::LoadOnce<Toolchain> toolchain_{load_toolchain};
  mutable std::mutex mutex_;
  mutable std::map<int, std::shared_ptr<backend::Memory>> memories_;  // By ordinal.
};

}  // namespace
}  // namespace penstock::cuda

PENSTOCK_PLUGIN("cuda", penstock::cuda::Backend)
