// The ONNX Runtime backend: graph style, complete coverage, the engine found at run time.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>

#include "engine.h"
#include "penstock/backend/backend.h"
#include "session.h"

namespace penstock::ort {
namespace {

class Executable final : public backend::Executable {
 public:
  explicit Executable(std::shared_ptr<const Model> model) : model_(std::move(model)) {}

  [[nodiscard]] std::span<const backend::Port> inputs() const override { return model_->inputs; }
  [[nodiscard]] std::span<const backend::Port> outputs() const override { return model_->outputs; }
  Result<std::unique_ptr<backend::Context>> create_context() override {
    return ort::create_context(model_);
  }

 private:
  std::shared_ptr<const Model> model_;
};

class Backend final : public backend::Backend {
 public:
  Backend() {
    // Official builds report usage over the network from the first environment on, unless told
    // otherwise before it exists. Here, as no other thread reads the environment yet.
    setenv("ORT_DISABLE_TELEMETRY", "1", 0);
  }

  [[nodiscard]] backend::Description describe() const override {
    backend::Description description;
    description.name = "onnxruntime";
    const auto& loaded = engine();
    if (loaded) {
      description.engine_version = (*loaded)->version;
      description.engine_file = (*loaded)->file.string();
    } else {
      description.unavailable = loaded.error().message;
    }
    return description;
  }

  /// By domain: ONNX Runtime implements ONNX whole. Operators of custom libraries show at compile.
  [[nodiscard]] bool supports(std::string_view /*op*/, std::string_view domain,
                              std::int64_t /*opset*/) const override {
    constexpr std::array<std::string_view, 4> kDomains = {"", "ai.onnx", "ai.onnx.ml",
                                                          "com.microsoft"};
    return std::ranges::find(kDomains, domain) != kDomains.end();
  }

  Result<std::unique_ptr<backend::Executable>> compile(
      const backend::CompileRequest& request) override {
    const auto& loaded = engine();
    if (!loaded) return Error(loaded.error());
    PENSTOCK_TRY(auto model, compile_model(*loaded, request));
    return std::unique_ptr<backend::Executable>(std::make_unique<Executable>(std::move(model)));
  }

 private:
  using Loaded = Result<std::shared_ptr<const Engine>>;

  const Loaded& engine() const {
    std::call_once(once_, [this] { engine_.emplace(load_engine()); });
    return *engine_;
  }

  mutable std::once_flag once_;
  mutable std::optional<Loaded> engine_;
};

}  // namespace
}  // namespace penstock::ort

PENSTOCK_PLUGIN("onnxruntime", penstock::ort::Backend)
