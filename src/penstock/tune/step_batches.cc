// The best plan once more, with as many frames in one call as its stages gain by.
#include <algorithm>

#include "penstock/session/batch_choice.h"
#include "penstock/tune/steps.h"

namespace penstock::tune {
namespace {

constexpr const char* kSeveral = "calls of several frames";
constexpr const char* kNotUsed = "calls of several frames are not used";

/// Why the stages keep one frame in a call.
std::string why_none(const std::vector<BatchChoice>& choices) {
  std::string text = kNotUsed;
  for (const auto& choice : choices) {
    const auto* const known = choice.trials.empty() ? "" : "none is clearly faster by 3 % or more";
    const auto* const join = choice.trials.empty() || choice.note.empty() ? "" : "; ";
    text += concat("; ", choice.stage, ": ", known, join, choice.note);
  }
  return text;
}

/// What choosing may take: the plan with them and the last comparison need the rest.
double seconds_left(const Context& context) {
  return context.options.budget_seconds - context.comparison_seconds() -
         context.batched_entry_seconds() - context.spent();
}

/// Without them there is a plan all the same.
Status leave_out(Context& context, const Error& error) {
  if (context.options.stopped()) return error;
  if (error.code == Code::kCancelled) {
    context.shortlist.leave_out(kSeveral);
  } else {
    context.report.notes.push_back(concat(kNotUsed, ": ", error.message()));
  }
  return {};
}

int most_frames_of(const std::vector<BatchChoice>& choices) {
  int most = 1;
  for (const auto& choice : choices) most = std::max(most, choice.frames);
  return most;
}

/// The plan with calls as they are chosen; where it fails, with the next smaller ones that gain.
Status enter_largest(const Context& context, Proposals& proposals, const Contestant& of_one,
                     std::vector<BatchChoice> choices) {
  for (int most = most_frames_of(choices); most > 1; most = most_frames_of(choices)) {
    auto contestant = of_one;
    for (const auto& choice : choices) contestant.batches[choice.stage].frames = choice.frames;
    contestant.name += concat(", up to ", most, " frames in a call");
    PENSTOCK_TRY(const auto place, proposals.enter_again(std::move(contestant)));
    const bool fails = place && !context.contest->entries()[*place].way.failure.empty();
    if (!fails || seconds_left(context) < 0) return {};
    for (auto& choice : choices) {
      if (choice.frames == most) choose_below(most, choice);
    }
  }
  return {};
}

}  // namespace

Status try_batches(Context& context, Proposals& proposals) {
  const auto best = context.contest->best();
  if (context.options.most_frames == 1 || !best) return {};
  if (context.is_one_at_a_time()) {
    context.report.notes.push_back(
        concat(kNotUsed, ": memory has no room for more than one plan at a time"));
    return {};
  }
  // It may end a little later: the machine may be slow for a moment.
  if (seconds_left(context) < context.choosing_seconds() / 2) {
    context.shortlist.leave_out(kSeveral);
    return {};
  }
  const ChoiceLimits limits{.silence_seconds = context.silence_seconds(), .stopped = [&] {
                              return context.options.stopped() || seconds_left(context) < 0;
                            }};
  context.say("measuring calls of several frames");
  auto contestant = context.contest->entries()[*best].contestant;
  PENSTOCK_TRY(const auto* graph, context.graph_of(contestant.as_is));
  partition::SplitOptions split{.by = contestant.split};
  split.custom_ops = context.options.custom_ops;
  split.weights = context.weights.get();
  split.frames = &context.ring;
  split.batches[""] = {.frames = context.options.most_frames, .measured = true};
  auto choices = choose_batches(*graph, split, context.backends, limits);
  if (!choices) return leave_out(context, choices.error());
  if (most_frames_of(*choices) == 1) {
    context.report.notes.push_back(why_none(*choices));
    return {};
  }
  contestant.batches = std::move(split.batches);
  return enter_largest(context, proposals, contestant, *choices);
}

}  // namespace penstock::tune
