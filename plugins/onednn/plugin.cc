// The oneDNN backend: library style, one primitive after the other, the library found at run time.
#include <utility>

#include "builder.h"
#include "engine.h"
#include "penstock/backend/load_once.h"
#include "penstock/backend/request.h"
#include "penstock/lower/model.h"
#include "rules.h"

namespace penstock::onednn {
namespace {

using backend::CompileRequest;

class Executable final : public backend::Executable {
 public:
  explicit Executable(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

  [[nodiscard]] std::span<const backend::Port> inputs() const override { return program_->inputs; }
  [[nodiscard]] std::span<const backend::Port> outputs() const override {
    return program_->outputs;
  }
  Result<std::unique_ptr<backend::Context>> create_context() override {
    const ThreadCount threads(program_->engine->threads, program_->threads);
    PENSTOCK_CHECK_OK(settle_workers(program_->engine->threads, program_->threads));
    return onednn::create_context(program_);
  }

 private:
  std::shared_ptr<const Program> program_;
};

Status check_request(const CompileRequest& request) {
  if (!request.options.empty()) {
    return invalid_argument("backend option 'onednn:", request.options.begin()->first,
                            "': unknown; the onednn backend has none");
  }
  if (request.precision == backend::Precision::kI8) {
    return make_error(Code::kUnimplemented, "the onednn backend computes in f32, bf16 or f16");
  }
  return {};
}

dnnl_fpmath_mode_t mode_of(backend::Precision precision) {
  switch (precision) {
    case backend::Precision::kBF16:
      return dnnl_fpmath_mode_bf16;
    case backend::Precision::kF16:
      return dnnl_fpmath_mode_f16;
    default:
      return dnnl_fpmath_mode_strict;
  }
}

class Backend final : public backend::Backend {
 public:
  [[nodiscard]] backend::Description describe() const override {
    auto description = engine_.describe("onednn");
    description.whole_graph = false;
    return description;
  }

  [[nodiscard]] std::string rules() const override { return onednn::rules(); }

  [[nodiscard]] std::vector<backend::Precision> lower_precisions() const override {
    std::vector<backend::Precision> precisions;
    if (!engine_()) return precisions;
    const auto isa = static_cast<unsigned>((*engine_())->api.get_effective_cpu_isa());
    const auto has = [isa](dnnl_cpu_isa_t wanted) { return (isa & wanted) == wanted; };
    if (has(dnnl_cpu_isa_avx512_core_bf16)) precisions.push_back(backend::Precision::kBF16);
    if (has(dnnl_cpu_isa_avx512_core_fp16)) precisions.push_back(backend::Precision::kF16);
    return precisions;
  }

  Result<std::unique_ptr<backend::Executable>> compile(const CompileRequest& given) override {
    const auto& loaded = engine_();
    if (!loaded) return Error(loaded.error());
    PENSTOCK_TRY(const auto request, backend::with_precision(given));
    PENSTOCK_CHECK_OK(check_request(request));
    PENSTOCK_CHECK_OK(backend::check_on_cpu(request, "onednn"));
    PENSTOCK_TRY(const auto model, lower::model_of(request));
    // Primitives keep the number of threads that they were made for.
    const ThreadCount threads((*loaded)->threads, request.threads);
    PENSTOCK_CHECK_OK(settle_workers((*loaded)->threads, request.threads));
    Builder builder(*loaded, model, request.optimize, mode_of(request.precision));
    PENSTOCK_TRY(auto program, builder.build(request.threads));
    return std::unique_ptr<backend::Executable>(std::make_unique<Executable>(std::move(program)));
  }

 private:
  backend::LoadOnce<Engine> engine_{load_engine};
};

}  // namespace
}  // namespace penstock::onednn

PENSTOCK_PLUGIN("onednn", penstock::onednn::Backend)
