#include "penstock/build/gate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "penstock/measure/reference.h"
#include "penstock/session/known_outputs.h"

namespace penstock::build {

Gate::Gate(measure::Ring inputs, measure::Judge judge)
    : inputs_(std::move(inputs)), judge_(std::move(judge)) {}

Result<Gate> Gate::create(const Setting& setting) {
  const auto& [model, package, ring, backends, optimised, tolerance] = setting;
  const auto last = static_cast<std::ptrdiff_t>(std::min(kGateFrames, ring.size()));
  measure::Ring inputs(ring.begin(), ring.begin() + last);
  std::vector<std::string> outputs;
  for (const auto& output : package.plan.outputs) outputs.push_back(output.name);
  const auto make = [&setting](const measure::ReferenceSettings& settings) {
    return measure::whole_reference(setting.model, setting.package, setting.backends, settings);
  };
  std::vector<measure::Judge::MakeReference> others;
  others.emplace_back([&make] { return make({.one_thread = true}); });
  if (optimised) others.emplace_back([&make] { return make({.optimize = true}); });
  PENSTOCK_TRY(const auto reference, make({}));
  PENSTOCK_TRY(auto judge,
               measure::Judge::create({outputs, tolerance, inputs, others, known_outputs(package)},
                                      *reference));
  return Gate(std::move(inputs), std::move(judge));
}

Result<measure::Verdict> Gate::judge(pipeline::Pipeline& pipeline) const {
  measure::Trial trial(judge_);
  for (std::size_t frame = 0; frame < inputs_.size(); ++frame) {
    PENSTOCK_TRY(const auto outputs, pipeline.run(inputs_[frame]));
    std::vector<const Tensor*> actual;
    for (const auto& output : outputs) actual.push_back(&output);
    trial.add(frame, inputs_[frame], actual, judge_.expected()[frame]);
  }
  return trial.verdict();
}

}  // namespace penstock::build
