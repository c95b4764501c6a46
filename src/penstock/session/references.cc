// Whole models, stages and pipelines of one frame, under several settings of the engine.
#include "penstock/session/references.h"

#include <utility>

#include "penstock/base/option_name.h"
#include "penstock/device/device.h"
#include "penstock/session/shaken.h"

namespace penstock {

References::References(const VerifyOptions& options, std::filesystem::path whole, std::string why,
                       const plan::Package& package, pipeline::Options settings,
                       const backend::Registry& backends)
    : options_(options),
      whole_(std::move(whole)),
      why_(std::move(why)),
      package_(package),
      settings_(std::move(settings)),
      backends_(backends) {
  settings_.warn = nullptr;
}

Result<std::unique_ptr<measure::Reference>> References::make(
    const measure::ReferenceSettings& settings) const {
  if (!why_.empty()) return measure::one_at_a_time(package_, backends_, settings_, settings);
  if (whole_.empty()) return measure::stage_reference(package_, backends_, settings);
  return measure::whole_reference(whole_, package_, backends_, settings);
}

std::vector<measure::MakeReference> References::others() const {
  const bool optimized = options_.optimized;
  std::vector<measure::MakeReference> all;
  all.emplace_back([this, optimized] { return make({.optimize = !optimized}); });
  if (device::inherited_cpus().size() > 1) {
    all.emplace_back(
        [this, optimized] { return make({.optimize = optimized, .one_thread = true}); });
  }
  if (!whole_.empty()) {
    all.push_back(
        noisy_reference(DType::kF32, whole_, package_, backends_, {.optimize = optimized}));
  }
  // Not where the whole model is the reference: what is judged is no witness for itself.
  if (why_.empty() && options_.model.empty() && package_.plan.stages.size() > 1) {
    all.emplace_back(
        [this, optimized] { return make({.optimize = optimized, .change_between = true}); });
  }
  return all;
}

measure::MakeReference References::with_half_noise() const {
  if (whole_.empty()) return nullptr;
  return noisy_reference(DType::kF16, whole_, package_, backends_,
                         {.optimize = options_.optimized});
}

std::vector<measure::MakeReference> References::for_second_look() const {
  auto all = others();
  if (whole_.empty()) return all;
  for (auto& one :
       shaken_references(whole_, package_, backends_, {.optimize = options_.optimized})) {
    all.push_back(std::move(one));
  }
  return all;
}

std::string References::describe() const {
  const std::string how = options_.optimized ? "optimised" : "not optimised";
  if (!why_.empty()) {
    return concat("the package's own stages, networks in ONNX Runtime, ", how,
                  ", one frame at a time, as ", why_);
  }
  if (!options_.model.empty()) {
    return "the whole model '" + options_.model.string() + "', " + how;
  }
  const auto& file = package_.plan.origin.model_file;
  return concat("the package's own stages one after the other, ", how, ", as ",
                file.empty() ? "the model" : "'" + file + "'",
                " is gone or changed since the package was made (give the whole one: ",
                OptionName::kModel, ")");
}

}  // namespace penstock
