// Runs the simple ways beside the best plan, and lets plans answer the one that passes it.
#include "penstock/tune/last_comparison.h"

#include <algorithm>
#include <string>
#include <vector>

#include "penstock/tune/other_sizes.h"
#include "penstock/tune/steady.h"

namespace penstock::tune {
namespace {

constexpr double kSecondsOfAnother = 2.5;  ///< For which a plan that answered it is compared.

/// Of the budget, with one more comparison at its end.
double seconds_before_another(const Context& context) {
  return context.options.budget_seconds - kSecondsOfAnother - context.spent();
}

/// Why some part of a plan of several does not compute what it should; empty: all do.
Result<std::string> failure_of(Parts& parts, const std::vector<partition::ChosenStage>& stages) {
  std::string failure;
  for (const auto& stage : stages) {
    if (stages.size() == 1 && stage.parts.size() == 1) break;  // The whole network.
    for (const auto& part : stage.parts) {
      PENSTOCK_TRY(const auto found, parts.failure_of(part, stage.devices.front()));
      if (failure.empty()) failure = found;
    }
  }
  return failure;
}

/// The plans that do what the simple way does run against the best, whatever is known of them: was
/// one judged wrongly, or is the file as it is faster there?
Status answer(Context& context, Proposals& proposals, const SimpleWay& simple) {
  auto& contest = *context.contest;
  context.say(concat("trying what does the same as the simple way ", simple.name));
  context.parts->measure_in_any_case();
  const auto way = std::ranges::find(context.ways, simple.backend, &Way::backend);
  const auto cover = whole_cover(context.graph, *way);
  if (!proposals.has_room_for(cover)) {
    context.shortlist.leave_out(concat("what plans make of the simple way ", simple.name));
    return {};
  }
  PENSTOCK_TRY(const auto clean, proposals.enter_whole(cover, simple.on_each_device));
  PENSTOCK_TRY(const auto as_is, proposals.enter_as_is({cover, simple.on_each_device}));
  if (!contest.best()) return no_plan(context);
  std::vector<std::size_t> rivals;
  for (const auto& place : {clean, as_is}) {
    if (place) rivals.push_back(*place);
  }
  return contest.challenge(rivals, seconds_before_another(context));
}

/// The simple ways that pass the plan, the fastest first; those after it as long as there is time.
Status answer_all(Context& context, Proposals& proposals) {
  const auto& contest = *context.contest;
  const bool latency = context.options.goal == Goal::kLatency;
  std::vector<SimpleWay> answered;
  while (const auto better =
             better_than_plan(context.report.now, context.ways, latency, answered)) {
    if (!answered.empty() && seconds_before_another(context) < 0) return {};
    answered.push_back(*better);
    const auto best = contest.best();
    PENSTOCK_CHECK_OK(answer(context, proposals, *better));
    if (contest.best() == best) continue;
    PENSTOCK_CHECK_OK(check_parts(context));
    PENSTOCK_CHECK_OK(run_simple(context, kSecondsOfAnother));
  }
  return {};
}

}  // namespace

Status check_parts(Context& context) {
  auto& contest = *context.contest;
  if (context.is_one_at_a_time()) contest.rest();
  while (const auto best = contest.best()) {
    PENSTOCK_TRY(const auto failure,
                 failure_of(*context.parts, contest.entries()[*best].contestant.split.stages));
    if (!failure.empty()) {
      contest.refuse(*best, failure);
      continue;
    }
    PENSTOCK_TRY(const bool stands, stands_other_sizes(context));
    if (stands) return {};
  }
  return no_plan(context);
}

Status run_simple(Context& context, double seconds) {
  auto& contest = *context.contest;
  auto& simple = *context.simple;
  context.say("comparing with the simple ways");
  if (simple.is_one_at_a_time()) {
    contest.rest();
    context.profiler->rest();
    PENSTOCK_CHECK_OK(simple.run_alone(seconds, contest.rounds()));
  }
  auto& now = context.report.now;
  for (;;) {
    auto started = contest.run_best(true);
    if (!started && started.error().code != Code::kCancelled) {
      simple.rest();  // They are all that runs beside it.
      started = contest.run_best(false);
    }
    PENSTOCK_TRY(auto* const running, std::move(started));
    if (running == nullptr) return no_plan(context);
    PENSTOCK_TRY(now, simple.run_beside(*running, seconds, contest.rounds()));
    if (now.plan.failure.empty()) return {};
    contest.refuse(*contest.best(), now.plan.failure);
    PENSTOCK_CHECK_OK(check_parts(context));
  }
}

Status compare_with_simple(Context& context, Proposals& proposals) {
  auto& report = context.report;
  PENSTOCK_CHECK_OK(run_simple(context, context.final_seconds()));
  PENSTOCK_CHECK_OK(answer_all(context, proposals));
  report.comparison = report.now;
  PENSTOCK_TRY(const auto* const running, context.contest->run_best(true));
  if (running == nullptr) return no_plan(context);
  PENSTOCK_TRY(report.trace, steady_trace(*running, report.now.plan.frames_per_second));
  return {};
}

}  // namespace penstock::tune
