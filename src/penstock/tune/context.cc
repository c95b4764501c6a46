// How a build's time is shared out, and which forms of the network there are.
#include "penstock/tune/context.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "penstock/graph/import.h"
#include "penstock/measure/reference.h"
#include "penstock/measure/slow_runs.h"
#include "penstock/tune/describe.h"
#include "penstock/tune/told.h"

namespace penstock::tune {
namespace {

constexpr int kLastWays = 6;          ///< In the last comparison: the plan and the simple ways.
constexpr double kFinalShare = 0.1;   ///< Of the budget, for which they run;
constexpr double kLeastFinal = 2.5;   ///< but so many seconds in all at least,
constexpr double kMostFinal = 6;      ///< and no more than these,
constexpr double kFinalFrames = 40;   ///< nor than so many frames a turn take, once that is known.
constexpr double kAnswerShare = 0.5;  ///< Of an entry's time: seldom is there another.
constexpr double kMostBatches = 0.4;  ///< Of the budget.
/// So many times what the sure engine's trial took is no hang, up to kLongestSilence, which that
/// engine itself has.
constexpr double kPatience = 4;
constexpr double kLongestSilence = std::chrono::duration<double>(measure::kLongestRun).count();
constexpr double kPlanTrials = 3;  ///< Of the network: the time that running the first plan takes.

}  // namespace

Context::Context(const graph::Graph& network, const Options& asked,
                 const backend::Registry& registry, cost::Database& costs)
    : graph(network),
      options(asked),
      backends(registry),
      database(costs),
      budget(asked.budget_seconds, asked.begin),
      shortlist(budget),
      tell_long_run(measure::once([this] {
        options.warn(
            measure::tell_long_run(model_name(graph), cost::kLongRun, options.frames.empty()));
      })) {}

std::string Context::budget_text() const {
  const auto seconds = options.budget_seconds;
  if (!options.budget_is_share) return concat("the budget of ", seconds, " s");
  return concat("the network's share of the budget, ", std::round(seconds * 10) / 10, " s,");
}

Result<const graph::Graph*> Context::graph_of(bool as_is) {
  if (!as_is || options.import.as_is) return &graph;
  if (!as_is_) {
    auto import = options.import;
    import.as_is = true;
    PENSTOCK_TRY(as_is_, import_model(graph.import.file, import, backends, options.custom_ops));
  }
  return &*as_is_;
}

void Context::say(const std::string& what) const {
  options.progress(what, std::min(1.0, spent() / options.budget_seconds));
}

double Context::latest_start(int plans) const {
  return options.budget_seconds - comparison_seconds() - batches_seconds() -
         plans * contest->entry_seconds();
}

double Context::batches_seconds() const {
  if (options.most_frames == 1 || !contest->best()) return 0;
  return std::min(choosing_seconds() + batched_entry_seconds(),
                  kMostBatches * options.budget_seconds);
}

double Context::choosing_seconds() const {
  const auto& best = contest->entries()[*contest->best()];
  const double frame = static_cast<double>(devices.size()) / best.score;
  const auto stages = static_cast<double>(best.contestant.split.stages.size());
  return stages *
         seconds_of_choosing(frame / stages, contest->start_seconds(), options.most_frames);
}

double Context::batched_entry_seconds() const {
  const auto sizes = static_cast<double>(partition::frames_of_models(options.most_frames).size());
  return contest->entry_seconds() + sizes * contest->start_seconds();
}

double Context::final_seconds() const {
  double most = kMostFinal;
  if (contest && contest->best()) {
    const double frame = 1 / contest->entries()[*contest->best()].score;
    most =
        std::clamp(kLastWays * contest->rounds() * kFinalFrames * frame, kLeastFinal, kMostFinal);
  }
  return std::clamp(options.budget_seconds * kFinalShare, kLeastFinal, most);
}

double Context::comparison_seconds() const {
  const double starts = std::max(kLastWays * contest->start_seconds(),
                                 simple->start_seconds() + contest->start_seconds());
  return final_seconds() + starts + kAnswerShare * contest->entry_seconds() + pack_seconds;
}

double Context::first_plan_seconds() const {
  return kPlanTrials * shortlist.trial_seconds(kSureEngine) + final_seconds() + pack_seconds;
}

double Context::silence_seconds() const {
  const double by_budget = std::clamp(options.budget_seconds / 6, kLeastSilence, kMostSilence);
  const double sure = shortlist.trial_seconds(kSureEngine);
  if (sure <= 0) return kLongestSilence;
  return std::max(by_budget, std::min(kPatience * sure, kLongestSilence));
}

double Context::rate(double seconds, bool on_each) const {
  const bool side_by_side = on_each && has_replicas() && options.goal == Goal::kThroughput;
  return static_cast<double>(side_by_side ? devices.size() : 1) / seconds;
}

bool Context::fits_on_each(const Cover& cover) const {
  const auto split = on_each(graph, cover, has_replicas() ? devices : std::vector{devices.front()});
  return room->holds_bytes(copies.bytes_of(graph, split));
}

Error no_plan(const Context& context) {
  std::string reasons;
  for (const auto& failure : context.parts->failures()) reasons += "; " + failure;
  for (const auto& entry : context.contest->entries()) {
    reasons += concat("; ", entry.way.name, ": ", entry.way.failure);
  }
  return make_error(Code::kFailedPrecondition, "no backend runs the network", reasons);
}

}  // namespace penstock::tune
