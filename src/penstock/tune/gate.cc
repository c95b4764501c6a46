// Makes the judge from several references, which take turns in memory where that is short.
#include "penstock/tune/gate.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "penstock/frames/random.h"
#include "penstock/measure/bursts.h"
#include "penstock/measure/reference.h"
#include "penstock/measure/states.h"
#include "penstock/measure/variants.h"
#include "penstock/session/known_outputs.h"
#include "penstock/session/shaken.h"

namespace penstock::tune {
namespace {

constexpr int kMostBursts = 20;  ///< Of each size, until a call was so large.

/// Made when it is asked, and again after it had to go.
class Resting final : public measure::Reference {
 public:
  explicit Resting(measure::MakeReference make) : make_(std::move(make)) {}

  /// \error why it cannot be made
  Status start() {
    if (made_) return {};
    PENSTOCK_TRY(made_, make_());
    return {};
  }
  void rest() { made_.reset(); }

  Result<std::vector<Tensor>> run(const frames::Frame& inputs) override {
    PENSTOCK_CHECK_OK(start());
    return made_->run(inputs);
  }
  Status begin_sequence() override {
    PENSTOCK_CHECK_OK(start());
    return made_->begin_sequence();
  }

 private:
  measure::MakeReference make_;
  std::unique_ptr<measure::Reference> made_;
};

}  // namespace

measure::Ring judged_first(measure::Ring frames, const plan::Plan& plan) {
  if (measure::have_open_states(plan)) return frames;
  const bool sequence = !plan.states.empty();
  return measure::with_telling_first(std::move(frames), sequence ? kSequenceFrames : kGateFrames,
                                     sequence);
}

Gate::Gate(measure::Ring inputs, measure::Judge judge, measure::MakeReference reference,
           std::vector<measure::MakeReference> others)
    : inputs_(std::move(inputs)),
      judge_(std::move(judge)),
      reference_(std::move(reference)),
      others_(std::move(others)) {}

Result<Gate> Gate::create(const Setting& setting) {
  const auto& [model, package, ring, backends, optimized, tolerance, stopped, alone, weights] =
      setting;
  const auto most = package.plan.states.empty() ? kGateFrames : kSequenceFrames;
  const auto last = static_cast<std::ptrdiff_t>(std::min(most, ring.size()));
  measure::Ring inputs(ring.begin(), ring.begin() + last);
  std::vector<std::string> outputs;
  for (const auto& output : package.plan.outputs) outputs.push_back(output.name);
  const auto run_of = [&](const measure::ReferenceSettings& settings) {
    return [&model = setting.model, &package = setting.package, &backends = setting.backends,
            settings] { return measure::whole_reference(model, package, backends, settings); };
  };
  std::vector<measure::MakeReference> others{run_of({.one_thread = true})};
  if (optimized) others.emplace_back(run_of({.optimize = true}));
  others.push_back(noisy_reference(model, package, backends, {}, weights));
  const measure::MakeReference make = run_of({});
  Resting reference(make);
  PENSTOCK_CHECK_OK(reference.start());
  auto in_turn = others;
  for (std::size_t i = 0; alone && i < others.size(); ++i) {
    in_turn[i] = [&reference, other = others[i]] {
      reference.rest();
      return other();
    };
  }
  const auto further = frames::random_frames(package.plan.inputs, {}, kGateFrames);
  PENSTOCK_TRY(auto judge,
               measure::Judge::create({outputs, tolerance, inputs, in_turn, known_outputs(package),
                                       stopped, further ? *further : measure::Ring()},
                                      reference));
  for (auto& shaken : shaken_references(model, package, backends, {})) {
    others.push_back(std::move(shaken));
  }
  Gate gate(std::move(inputs), std::move(judge), make, std::move(others));
  gate.one_at_a_time_ = alone;
  return gate;
}

/// So many frames at once, the gate's over and over: a call has frames that differ.
Status Gate::run_burst(pipeline::Pipeline& pipeline, std::size_t frames,
                       measure::Trial& trial) const {
  for (std::size_t i = 0; i < frames; ++i) {
    PENSTOCK_CHECK_OK(pipeline.push(inputs_[i % inputs_.size()]));
  }
  for (std::size_t i = 0; i < frames; ++i) {
    PENSTOCK_TRY(const auto output, pipeline.pop());
    if (!output) return internal_error("the pipeline ended with frames in flight");
    if (!output->ok()) return output->error();
    std::vector<const Tensor*> actual;
    for (std::size_t o = 0; o < output->size(); ++o) actual.push_back(&(*output)[o]);
    const std::size_t frame = i % inputs_.size();
    trial.add(frame, inputs_[frame], actual, judge_.expected()[frame]);
  }
  return {};
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
  // Whether a burst is one call hangs on how fast it comes.
  for (int tries = 0;
       tries == 0 || (tries < kMostBursts && !measure::unseen_sizes(pipeline).empty()); ++tries) {
    for (const std::size_t frames : measure::bursts_of(pipeline)) {
      PENSTOCK_CHECK_OK(run_burst(pipeline, frames, trial));
    }
  }
  const bool may_look = pipeline.plan().states.empty() && !one_at_a_time_;
  if (trial.needs_second_look() && may_look) {
    if (const auto reference = reference_()) trial.look_again(**reference, others_);
  }
  return trial.verdict();
}

std::size_t Gate::frames_for(const pipeline::Pipeline& pipeline) const {
  const auto bursts = measure::bursts_of(pipeline);
  return std::accumulate(bursts.begin(), bursts.end(), inputs_.size());
}

}  // namespace penstock::tune
