// Gives the choice of frames its reference and its share of the budget.
#include "penstock/tune/taken_frames.h"

#include "penstock/cost/profiler.h"
#include "penstock/measure/reference.h"
#include "penstock/measure/slow_runs.h"
#include "penstock/tune/gate.h"

namespace penstock::tune {
namespace {

constexpr double kShare = 0.2;  // Of the budget.

}  // namespace

measure::TakenFrames take_frames(const Options& options, const std::filesystem::path& model,
                                 const plan::Package& package, const backend::Registry& backends,
                                 const std::function<void()>& on_long_run) {
  const auto reference = measure::whole_reference(model, package, backends, {});
  if (!reference) return {options.frames, {}};
  measure::WatchedReference watched(**reference, on_long_run, cost::kLongRun);
  return measure::take_frames(watched,
                              {.frames = options.frames,
                               .names = options.frame_names,
                               .seconds = kShare * options.budget_seconds,
                               .least = options.states.empty() ? kGateFrames : kSequenceFrames,
                               .stopped = options.stopped});
}

}  // namespace penstock::tune
