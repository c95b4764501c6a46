// Makes the judge from several references, which take turns in memory where that is short.
#include "penstock/tune/gate.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "penstock/cost/profiler.h"
#include "penstock/frames/random.h"
#include "penstock/measure/bursts.h"
#include "penstock/measure/reference.h"
#include "penstock/measure/slow_runs.h"
#include "penstock/measure/states.h"
#include "penstock/measure/variants.h"
#include "penstock/session/known_outputs.h"
#include "penstock/session/shaken.h"

namespace penstock::tune {
namespace {

constexpr std::size_t kMostRepeats = 20;  ///< Of bursts, whose outputs are known.

/// Made when it is asked, and again after it had to go.
class Resting final : public measure::Reference {
 public:
  explicit Resting(measure::MakeReference make) : make_(std::move(make)) {}

  /// \error why it cannot be made
  Status start() {
    if (made_) return {};
    PENSTOCK_TRY(made_, make_());
    made_->limit_runs(limit_);
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
  void limit_runs(Limit limit) override {
    limit_ = limit;
    if (made_) made_->limit_runs(limit);
  }

 private:
  measure::MakeReference make_;
  Limit limit_;
  std::unique_ptr<measure::Reference> made_;
};

/// The outputs of frames that come over and over: they are computed already.
class Known final : public measure::Reference {
 public:
  explicit Known(const std::vector<std::vector<Tensor>>& outputs) : outputs_(outputs) {}
  Result<std::vector<Tensor>> run(const frames::Frame& /*inputs*/) override {
    return outputs_[next_++ % outputs_.size()];
  }
  Status begin_sequence() override {
    next_ = 0;
    return {};
  }

 private:
  const std::vector<std::vector<Tensor>>& outputs_;
  std::size_t next_ = 0;
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
  const auto& package = setting.package;
  const auto most = package.plan.states.empty() ? kGateFrames : kSequenceFrames;
  const auto last = static_cast<std::ptrdiff_t>(std::min(most, setting.ring.size()));
  measure::Ring inputs(setting.ring.begin(), setting.ring.begin() + last);
  std::vector<std::string> outputs;
  for (const auto& output : package.plan.outputs) outputs.push_back(output.name);
  const auto run_of = [&](const measure::ReferenceSettings& settings) {
    return [&model = setting.model, &package, &backends = setting.backends, settings] {
      return measure::whole_reference(model, package, backends, settings);
    };
  };
  const auto noisy = [&](DType dtype) {
    return noisy_reference(dtype, setting.model, package, setting.backends, {}, setting.weights);
  };
  std::vector<measure::MakeReference> others{run_of({.one_thread = true})};
  if (setting.optimized) others.emplace_back(run_of({.optimize = true}));
  others.push_back(noisy(DType::kF32));
  const measure::MakeReference make = run_of({});
  Resting reference(make);
  PENSTOCK_CHECK_OK(reference.start());
  const auto in_turn = [&](measure::MakeReference other) {
    if (!setting.one_at_a_time) return other;
    return measure::MakeReference([&reference, other = std::move(other)] {
      reference.rest();
      return other();
    });
  };
  std::vector<measure::MakeReference> others_in_turn;
  for (const auto& other : others) others_in_turn.push_back(in_turn(other));
  measure::WatchedReference watched(reference, setting.on_long_run, cost::kLongRun);
  const auto further = frames::random_frames(package.plan.inputs, {}, kGateFrames);
  PENSTOCK_TRY(auto judge, measure::Judge::create({.outputs = outputs,
                                                   .tolerance = setting.tolerance,
                                                   .frames = inputs,
                                                   .others = others_in_turn,
                                                   .known = known_outputs(package),
                                                   .stopped = setting.stopped,
                                                   .further = further ? *further : measure::Ring(),
                                                   .longest_run = measure::kLongestRun,
                                                   .half = in_turn(noisy(DType::kF16))},
                                                  watched));
  for (auto& shaken : shaken_references(setting.model, package, setting.backends, {})) {
    others.push_back(std::move(shaken));
  }
  Gate gate(std::move(inputs), std::move(judge), make, std::move(others));
  gate.one_at_a_time_ = setting.one_at_a_time;
  gate.stopped_ = setting.stopped;
  gate.out_of_time_ = setting.out_of_time;
  gate.on_long_run_ = setting.on_long_run;
  return gate;
}

Result<measure::VerifyReport> Gate::judge(pipeline::Pipeline& pipeline) const {
  if (!pipeline.plan().states.empty()) PENSTOCK_CHECK_OK(pipeline.reset_states());
  Known known(judge_.expected());
  std::vector<std::size_t> bursts(inputs_.size(), 1);
  for (const auto frames : measure::bursts_of(pipeline)) bursts.push_back(frames);
  PENSTOCK_TRY(
      auto report,
      measure::verify({.pipeline = pipeline,
                       .reference = known,
                       .judge = judge_,
                       .look_again = [&](measure::Trial& trial) { look_again(trial); },
                       .frame = [&](auto number) { return inputs_[number % inputs_.size()]; },
                       .frames = std::accumulate(bursts.begin(), bursts.end(), std::uint64_t{0}),
                       .sequence = pipeline.plan().states.empty() ? 0 : inputs_.size(),
                       .bursts = bursts,
                       .repeats = kMostRepeats,
                       .out_of_time = out_of_time_,
                       .inputs = pipeline.plan().inputs,
                       .bound = {},
                       .ends_at_failure = true,
                       .stopped = stopped_,
                       .on_long_run = on_long_run_,
                       .long_run = cost::kLongRun}));
  if (!report.interrupted) report.warnings = measure::unseen_sizes(pipeline);
  return report;
}

void Gate::look_again(measure::Trial& trial) const {
  if (one_at_a_time_) return;
  if (const auto reference = reference_()) trial.look_again(**reference, others_);
}

}  // namespace penstock::tune
