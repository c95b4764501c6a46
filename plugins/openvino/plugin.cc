// The OpenVINO backend: graph style, what its ONNX reader converts, the engine found at run time.
#include <mutex>
#include <utility>

#include "engine.h"
#include "model.h"
#include "penstock/backend/load_once.h"
#include "penstock/backend/request.h"
#include "rules.h"
#include "workers.h"

namespace penstock::openvino {
namespace {

// The queue of its one stream, and the one that would call back when a run ends.
constexpr int kIdleThreads = 2;

class Executable final : public backend::Executable {
 public:
  explicit Executable(std::shared_ptr<const Model> model)
      : model_(std::move(model)), unused_(model_->first) {}

  [[nodiscard]] std::span<const backend::Port> inputs() const override { return model_->inputs; }
  [[nodiscard]] std::span<const backend::Port> outputs() const override { return model_->outputs; }
  [[nodiscard]] int recommended_contexts() const override { return model_->recommended_contexts; }
  [[nodiscard]] int idle_threads() const override { return kIdleThreads; }

  /// A compilation for each, but where its requests can run at the same time.
  Result<std::unique_ptr<backend::Context>> create_context() override {
    if (model_->requests_share) return openvino::create_context(model_, model_->first);
    if (auto first = take_unused()) return openvino::create_context(model_, std::move(first));
    PENSTOCK_TRY(auto compiled, compile_source(*model_));
    return openvino::create_context(model_, std::move(compiled));
  }

 private:
  std::shared_ptr<const Compiled> take_unused() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(unused_, nullptr);
  }

  std::shared_ptr<const Model> model_;
  std::mutex mutex_;
  std::shared_ptr<const Compiled> unused_;
};

class Backend final : public backend::Backend {
 public:
  [[nodiscard]] backend::Description describe() const override {
    return engine_.describe("openvino");
  }

  [[nodiscard]] std::string rules() const override { return openvino::rules(); }

  [[nodiscard]] std::vector<backend::Precision> lower_precisions() const override {
    return engine_() ? openvino::lower_precisions(**engine_()) : std::vector<backend::Precision>();
  }

  Result<std::unique_ptr<backend::Executable>> compile(
      const backend::CompileRequest& given) override {
    const auto& loaded = engine_();
    if (!loaded) return Error(loaded.error());
    PENSTOCK_TRY(const auto request, backend::with_precision(given));
    PENSTOCK_TRY(auto model, compile_model(*loaded, request, pool_));
    return std::unique_ptr<backend::Executable>(std::make_unique<Executable>(std::move(model)));
  }

 private:
  backend::LoadOnce<Engine> engine_{load_engine};
  std::shared_ptr<WorkerPool> pool_ = std::make_shared<WorkerPool>();
};

}  // namespace
}  // namespace penstock::openvino

PENSTOCK_PLUGIN("openvino", penstock::openvino::Backend)
