#include "penstock/tune/gate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "penstock/measure/reference.h"
#include "penstock/session/known_outputs.h"
#include "penstock/session/shaken.h"

namespace penstock::tune {

Gate::Gate(measure::Ring inputs, measure::Judge judge, measure::Judge::MakeReference reference,
           std::vector<measure::Judge::MakeReference> others)
    : inputs_(std::move(inputs)),
      judge_(std::move(judge)),
      reference_(std::move(reference)),
      others_(std::move(others)) {}

Result<Gate> Gate::create(const Setting& setting) {
  const auto& [model, package, ring, backends, optimised, tolerance, stopped] = setting;
  const auto most = package.plan.states.empty() ? kGateFrames : kSequenceFrames;
  const auto last = static_cast<std::ptrdiff_t>(std::min(most, ring.size()));
  measure::Ring inputs(ring.begin(), ring.begin() + last);
  std::vector<std::string> outputs;
  for (const auto& output : package.plan.outputs) outputs.push_back(output.name);
  const auto run_of = [&](const measure::ReferenceSettings& settings) {
    return [&model = setting.model, &package = setting.package, &backends = setting.backends,
            settings] { return measure::whole_reference(model, package, backends, settings); };
  };
  std::vector<measure::Judge::MakeReference> others{run_of({.one_thread = true})};
  if (optimised) others.emplace_back(run_of({.optimize = true}));
  const measure::Judge::MakeReference make = run_of({});
  PENSTOCK_TRY(const auto reference, make());
  PENSTOCK_TRY(auto judge, measure::Judge::create({outputs, tolerance, inputs, others,
                                                   known_outputs(package), stopped},
                                                  *reference));
  for (auto& shaken : shaken_references(model, package, backends, {})) {
    others.push_back(std::move(shaken));
  }
  return Gate(std::move(inputs), std::move(judge), make, std::move(others));
}

Result<measure::Verdict> Gate::judge(pipeline::Pipeline& pipeline) const {
  measure::Trial trial(judge_);
  if (!pipeline.plan().states.empty()) PENSTOCK_CHECK_OK(pipeline.reset_states());
  for (std::size_t frame = 0; frame < inputs_.size(); ++frame) {
    PENSTOCK_TRY(const auto outputs, pipeline.run(inputs_[frame]));
    std::vector<const Tensor*> actual;
    for (const auto& output : outputs) actual.push_back(&output);
    trial.add(frame, inputs_[frame], actual, judge_.expected()[frame]);
  }
  if (trial.verdict().finding() == measure::Finding::kWrong && pipeline.plan().states.empty()) {
    if (const auto reference = reference_()) trial.look_again(**reference, others_);
  }
  return trial.verdict();
}

}  // namespace penstock::tune
