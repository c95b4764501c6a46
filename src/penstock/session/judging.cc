// Judges are measured on the frames that say the most, or on random ones.
#include "penstock/session/judging.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "penstock/cost/profiler.h"
#include "penstock/measure/bursts.h"
#include "penstock/measure/slow_runs.h"
#include "penstock/measure/variants.h"
#include "penstock/plan/bound.h"
#include "penstock/session/known_outputs.h"
#include "penstock/session/references.h"

namespace penstock {
namespace {

constexpr std::uint64_t kTriedFrames = 4;      ///< That say what is allowed,
constexpr std::uint64_t kMostTried = 32;       ///< Where the reference fails on some of these,
constexpr std::uint64_t kSequenceFrames = 16;  ///< and where rounding adds up in states.

/// Streams take turns: each gets all that are given, in their order.
Result<frames::Frame> frame_of(const VerifyOptions& options, const plan::Plan& plan,
                               std::uint64_t number, std::uint64_t streams) {
  if (!options.given.empty()) return options.given[number / streams % options.given.size()];
  return frames::random_frame(plan.inputs, options.random, number);
}

std::vector<std::string> names_of_outputs(const plan::Plan& plan) {
  std::vector<std::string> names;
  for (const auto& output : plan.outputs) names.push_back(output.name);
  return names;
}

/// That say what is allowed, `most` of them: the given ones that say the most, else random ones.
Result<std::vector<frames::Frame>> frames_to_try(const VerifyOptions& options,
                                                 const plan::Plan& plan, std::uint64_t most) {
  if (options.given.empty()) return frames::random_frames(plan.inputs, options.random, most);
  std::vector<frames::Frame> chosen;
  for (const auto i : measure::telling_frames(options.given, most, !plan.states.empty())) {
    chosen.push_back(options.given[i]);
  }
  return chosen;
}

/// The first kTriedFrames on which the reference does not fail.
std::vector<frames::Frame> that_come_out(std::vector<frames::Frame> frames,
                                         measure::Reference& reference) {
  const measure::LimitedRuns limited(reference, measure::kLongestRun);
  std::vector<frames::Frame> good;
  for (auto& frame : frames) {
    if (good.size() == kTriedFrames) break;
    const auto ran = reference.run(frame);
    if (measure::is_endless(ran)) break;
    if (ran) good.push_back(std::move(frame));
  }
  return good;
}

}  // namespace

Result<measure::Judge> make_judge(const VerifyRun& of) {
  const auto& options = of.options;
  const auto& plan = of.package.plan;
  const auto random = frames::random_frames(plan.inputs, options.random, kTriedFrames);
  const auto create = [&](const std::vector<frames::Frame>& frames) {
    return measure::Judge::create({names_of_outputs(plan), options.tolerance, frames,
                                   of.references.others(), known_outputs(of.package),
                                   options.stopped, random ? *random : std::vector<frames::Frame>(),
                                   measure::kLongestRun, of.references.with_half_noise()},
                                  of.reference);
  };
  const bool stateless = plan.states.empty();
  PENSTOCK_TRY(const auto first,
               frames_to_try(options, plan, stateless ? kTriedFrames : kSequenceFrames));
  auto judge = create(first);
  if (judge || measure::is_endless_run(judge.error())) return judge;
  if (stateless && !options.stopped()) {
    PENSTOCK_TRY(auto more, frames_to_try(options, plan, kMostTried));
    const auto good = that_come_out(std::move(more), of.reference);
    if (!good.empty()) {
      if (judge = create(good); judge) return judge;
    }
  }
  return unmeasured_judge(options, plan);
}

measure::Judge unmeasured_judge(const VerifyOptions& options, const plan::Plan& plan) {
  return measure::Judge::unmeasured(names_of_outputs(plan), options.tolerance);
}

Result<measure::VerifyReport> judge_frames(const VerifyRun& of, const measure::Judge& judge,
                                           std::uint64_t frames, std::size_t repeats) {
  const auto& options = of.options;
  const auto& plan = of.package.plan;
  const auto streams = measure::streams_in_turn(of.pipeline);
  const measure::LimitedRuns limited(of.reference, measure::kLongestRun);
  return measure::verify(
      {.pipeline = of.pipeline,
       .reference = of.reference,
       .judge = judge,
       .look_again =
           [&](measure::Trial& trial) {
             trial.look_again(of.reference, of.references.for_second_look());
           },
       .frame = [&](auto number) { return frame_of(options, plan, number, streams); },
       .frames = frames,
       .streams = streams,
       .sequence = plan.states.empty() ? 0 : options.given.size(),
       .bursts = measure::bursts_of(of.pipeline),
       .repeats = repeats,
       .inputs = plan.inputs,
       .bound = plan::names_of_bound(plan.bound_inputs),
       .random = options.given.empty(),
       .stopped = options.stopped,
       .on_long_run = of.on_long_run,
       .long_run = cost::kLongRun,
       .progress = [&](auto done) { options.progress(std::min(done, frames), frames); }});
}

}  // namespace penstock
