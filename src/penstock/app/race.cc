// Judges plans by the application without optimisation, then measures the right ones in turn.
#include "penstock/app/race.h"

#include <algorithm>
#include <utility>

#include "penstock/cost/turn.h"
#include "penstock/device/affinity.h"
#include "penstock/measure/rounds.h"
#include "penstock/session/known_outputs.h"
#include "penstock/tune/describe.h"
#include "penstock/tune/plans.h"
#include "penstock/tune/simple.h"

namespace penstock::app {
namespace {

constexpr double kQueueSeconds = 0.02;  ///< What the frames in flight take together, about.
constexpr int kMostInFlight = 64;

std::string what_of(const plan::Plan& plan) {
  return join(plan.stages, " | ", [](const plan::Stage& stage) {
    return stage.name + " on " + devices_text(stage.devices);
  });
}

}  // namespace

void Race::enter(const char* name, const plan::Package& package, bool simple,
                 const std::vector<std::vector<device::Device>>& devices) {
  Candidate candidate;
  candidate.way.name = name;
  candidate.package = &package;
  candidate.simple = simple;
  candidate.plan = package.plan;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!devices[i].empty()) candidate.plan.stages[i].devices = devices[i];
  }
  const auto same = std::ranges::find_if(candidates_, [&](const Candidate& other) {
    return other.package == &package && other.plan.stages == candidate.plan.stages;
  });
  if (same != candidates_.end()) return;
  candidate.way.what = what_of(candidate.plan);
  candidates_.push_back(std::move(candidate));
}

/// The application as it is written, one frame at a time.
Result<std::unique_ptr<measure::Reference>> Race::make_reference(bool optimized) const {
  return measure::one_at_a_time(written_, tuning_.backends, {.functions = tuning_.functions},
                                {.optimize = optimized});
}

/// By the application with its networks not optimised. What a function keeps from frame to frame
/// begins once for each pipeline: then nothing is run twice.
Result<measure::Judge> Race::make_judge() {
  std::vector<std::string> outputs;
  outputs.reserve(written_.plan.outputs.size());
  for (const auto& output : written_.plan.outputs) outputs.push_back(output.name);
  const auto tolerance = Tolerance::of(tuning_.options.tolerance.value_or(Tolerance().relative));
  PENSTOCK_TRY(const auto reference, make_reference(false));
  const bool once = std::ranges::any_of(written_.plan.stages, &plan::Stage::stateful);
  if (!once) {
    others_.emplace_back([this] { return make_reference(true); });
    PENSTOCK_TRY(auto judge, measure::Judge::create({.outputs = outputs,
                                                     .tolerance = tolerance,
                                                     .frames = ring_,
                                                     .others = others_,
                                                     .known = known_outputs(written_),
                                                     .stopped = tuning_.options.stopped,
                                                     .longest_run = measure::kLongestRun},
                                                    *reference));
    expected_ = judge.expected();
    return judge;
  }
  reference->limit_runs(measure::kLongestRun);
  for (const auto& frame : ring_) {
    PENSTOCK_TRY(expected_.emplace_back(), reference->run(frame));
  }
  return measure::Judge::unmeasured(outputs, tolerance);
}

void Race::try_frames(Candidate& candidate) {
  auto started = tuning_.start(candidate.plan, candidate.package->folder);
  if (!started) {
    candidate.lacks_room = started.error().code == Code::kFailedPrecondition;
    candidate.way.failure = started.error().message();
    return;
  }
  candidate.way.failure.clear();
  measure::Trial trial(*judge_);
  for (std::size_t f = 0; f < ring_.size(); ++f) {
    const auto outputs = (*started)->run(ring_[f]);
    if (!outputs) {
      candidate.way.failure = outputs.error().message();
      return;
    }
    std::vector<const Tensor*> actual;
    for (const auto& output : *outputs) actual.push_back(&output);
    trial.add(f, ring_[f], actual, expected_[f]);
  }
  if (trial.needs_second_look() && judge_->is_measured() && candidate.plan.states.empty()) {
    if (const auto reference = make_reference(false)) trial.look_again(**reference, others_);
  }
  const auto verdict = trial.verdict();
  for (const auto& output : verdict.outputs) {
    candidate.way.worst_ratio = std::max(candidate.way.worst_ratio, output.worst_ratio);
  }
  candidate.doubts = verdict.doubts();
  if (verdict.finding() == measure::Finding::kWrong) {
    candidate.way.failure = "wrong output: " + verdict.reason(measure::Finding::kWrong);
    return;
  }
  candidate.pipeline = *std::move(started);
}

Status Race::judge() {
  tuning_.say("running the reference");
  auto made = make_judge();
  if (!made) return std::move(made).error().within({Where::kWay, "reference"});
  judge_ = *std::move(made);
  for (auto& candidate : candidates_) {
    if (tuning_.options.stopped()) return stopped_early();
    tuning_.say("trying '" + candidate.way.name + "'");
    try_frames(candidate);
  }
  return {};
}

/// In turn. \returns false where one failed, and is left out: the others begin again.
Result<bool> Race::run_beside(const std::vector<Candidate*>& running) {
  measure::Sides sides;
  for (const auto* candidate : running) {
    const auto deep = static_cast<int>(
        std::min<double>(kMostInFlight, kQueueSeconds / std::max(frame_seconds_, 1e-6)));
    const auto least = static_cast<int>(4 * candidate->plan.stages.size());
    const int wanted = tuning_.latency() ? 1 : std::max(deep, least);
    sides.push_back(measure::pipeline_side(*candidate->pipeline, ring_,
                                           std::min(wanted, candidate->pipeline->in_flight_limit()),
                                           candidate->way.name));
  }
  const auto share = static_cast<double>(running.size()) / static_cast<double>(candidates_.size());
  auto measured = measure::measure_in_turn(
      sides, {.seconds = tuning_.race_seconds() * share, .stopped = tuning_.options.stopped});
  if (tuning_.options.stopped()) return stopped_early();
  if (!measured) {
    const Where* const way = measured.error().find(Where::kWay);
    const auto failed = std::ranges::find_if(running, [&](const Candidate* one) {
      return way != nullptr && way->name == one->way.name;
    });
    if (failed == running.end()) return std::move(measured).error();
    (*failed)->way.failure = measured.error().message();
    (*failed)->pipeline.reset();
    return false;
  }
  for (std::size_t i = 0; i < running.size(); ++i) {
    tune::note_rounds((*measured)[i], tuning_.latency(), running[i]->way);
  }
  return true;
}

/// Those that could not stand beside the others.
Status Race::run_alone() {
  for (auto& candidate : candidates_) {
    if (!candidate.lacks_room) continue;
    for (auto& other : candidates_) other.pipeline.reset();
    tuning_.say("running '" + candidate.way.name + "' alone");
    try_frames(candidate);
    if (candidate.pipeline) PENSTOCK_CHECK_OK(run_beside({&candidate}));
  }
  return {};
}

Status Race::run(double frame_seconds) {
  frame_seconds_ = frame_seconds;
  const auto cpus = tune::union_of(tuning_.devices).cpus;
  if (cpus != device::inherited_cpus()) PENSTOCK_CHECK_OK(device::pin_this_thread(cpus));
  const auto turn = cost::Turn::wait(tuning_.database.file(), tuning_.options.stopped);
  tuning_.say("running the plans beside one another");
  for (bool done = false; !done;) {
    std::vector<Candidate*> running;
    for (auto& candidate : candidates_) {
      if (candidate.pipeline) running.push_back(&candidate);
    }
    if (running.empty()) break;
    PENSTOCK_TRY(done, run_beside(running));
  }
  PENSTOCK_CHECK_OK(run_alone());
  const bool any = std::ranges::any_of(
      candidates_, [](const Candidate& one) { return one.way.failure.empty(); });
  return any ? Status() : no_plan();
}

const Candidate& Race::best() const {
  const Candidate* best = nullptr;
  const bool latency = tuning_.latency();
  for (const auto& candidate : candidates_) {
    if (!candidate.way.failure.empty()) continue;
    if (best == nullptr || candidate.way.worth(latency) > best->way.worth(latency)) {
      best = &candidate;
    }
  }
  return *best;
}

void Race::describe_outputs(tune::Report& report) const {
  tune::describe_outputs(*judge_, best().doubts, report);
}

Error Race::no_plan() const {
  std::string reasons;
  for (const auto& candidate : candidates_) {
    reasons += concat("; ", candidate.way.name, ": ", candidate.way.failure);
  }
  return make_error(Code::kFailedPrecondition, "no plan of the application runs", reasons);
}

}  // namespace penstock::app
