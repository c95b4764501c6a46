// The ONNX Runtime backend: graph style, complete coverage, the engine found at run time.
#include <utility>

#include "engine.h"
#include "penstock/backend/backend.h"
#include "penstock/backend/load_once.h"
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
  [[nodiscard]] backend::Description describe() const override {
    return engine_.describe("onnxruntime");
  }

  /// ONNX Runtime implements ONNX whole. Operators of custom libraries show at compile.
  [[nodiscard]] std::string rules() const override {
    return R"({"version": 1, "rule": {"combine": {"all": true}}})";
  }

  Result<std::unique_ptr<backend::Executable>> compile(
      const backend::CompileRequest& request) override {
    const auto& loaded = engine_();
    if (!loaded) return Error(loaded.error());
    PENSTOCK_TRY(auto model, compile_model(*loaded, request));
    return std::unique_ptr<backend::Executable>(std::make_unique<Executable>(std::move(model)));
  }

 private:
  backend::LoadOnce<Engine> engine_{load_engine};
};

}  // namespace
}  // namespace penstock::ort

PENSTOCK_PLUGIN("onnxruntime", penstock::ort::Backend)
