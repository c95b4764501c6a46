// Finds sizes and makes their gate once for a build, and judges each plan that becomes the best.
#include "penstock/tune/other_sizes.h"

#include <optional>
#include <utility>

#include "penstock/frames/random.h"
#include "penstock/measure/reference.h"
#include "penstock/session/other_frames.h"

namespace penstock::tune {
namespace {

constexpr std::uint64_t kFramesOfOtherSizes = 2;

/// With a gate where the network takes other sizes, and this can be measured on them.
Result<OtherSizes> find(const Context& context) {
  OtherSizes other{context.whole, {}, {}};
  const auto& options = context.options;
  auto& inputs = other.package.plan.inputs;
  if (!options.frames.empty() || !have_other_sizes(inputs)) return other;
  context.say("running the reference at other sizes");
  {
    PENSTOCK_TRY(const auto reference,
                 measure::whole_reference(context.file.file, context.whole, context.backends, {}));
    auto found = find_other_sizes(inputs, options.random, *reference, options.stopped);
    if (!found) return other;
    inputs = *std::move(found);
  }
  PENSTOCK_TRY(other.ring, frames::random_frames(inputs, options.random, kFramesOfOtherSizes));
  return other;
}

/// Of each build once.
Status make(Context& context) {
  if (context.other_sizes) return {};
  if (context.is_one_at_a_time()) {
    context.contest->rest();
    context.profiler->rest();
  }
  PENSTOCK_TRY(auto found, find(context));
  auto& other = *(context.other_sizes = std::make_unique<OtherSizes>(std::move(found)));
  if (!other.ring.empty()) {
    const auto tolerance = Tolerance::of(context.options.tolerance.value_or(Tolerance().relative));
    if (auto gate =
            Gate::create({context.file.file, other.package, other.ring, context.backends,
                          context.simple->runs("onnxruntime"), tolerance, context.options.stopped,
                          context.is_one_at_a_time(), context.weights.get()})) {
      other.gate = *std::move(gate);
    }
  }
  const bool open = context.options.frames.empty() && have_other_sizes(context.whole.plan.inputs);
  if (open && !other.gate && !context.options.stopped()) {
    context.options.warn(tell_usual_sizes(context.whole.plan.inputs));
  }
  return {};
}

/// Why the plan is wrong there; empty: it is not.
std::string failure_of(const OtherSizes& other, Runner& runner) {
  const auto sizes =
      concat("with ", join(frames::open_sizes(other.package.plan.inputs), ", "), ": ");
  const auto judged = runner.judge_by(*other.gate);
  if (!judged) return sizes + judged.error().message();
  const auto& verdict = judged->verdict;
  if (verdict.finding() != measure::Finding::kWrong) return {};
  return concat("wrong output: ", sizes, verdict.reason(measure::Finding::kWrong));
}

}  // namespace

Result<bool> stands_other_sizes(Context& context) {
  auto& contest = *context.contest;
  PENSTOCK_CHECK_OK(make(context));
  const auto best = contest.best();
  auto& other = *context.other_sizes;
  if (!other.gate || !best || other.right.contains(*best)) return true;
  PENSTOCK_TRY(const auto* const running, contest.run_best(false));
  if (running == nullptr) return no_plan(context);
  if (contest.best() != best) return false;
  context.say("judging the best plan at other sizes");
  const auto failure = failure_of(other, *running->runner);
  if (failure.empty()) {
    if (!context.options.stopped()) other.right.insert(*best);
    return true;
  }
  contest.refuse(*best, failure);
  return false;
}

}  // namespace penstock::tune
