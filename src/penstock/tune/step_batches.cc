// The best plan once more, with as many frames in one call as its stages gain by.
#include <algorithm>

#include "penstock/session/batch_choice.h"
#include "penstock/tune/steps.h"

namespace penstock::tune {
namespace {

/// Why the stages keep one frame in a call.
std::string why_none(const std::vector<BatchChoice>& choices) {
  std::string text = "calls of several frames are not used";
  for (const auto& choice : choices) {
    text += concat("; ", choice.stage, ": ",
                   choice.note.empty() ? "they gain less than 3 %" : choice.note);
  }
  return text;
}

}  // namespace

Status try_batches(Context& context, Proposals& proposals) {
  const auto best = context.contest->best();
  if (context.options.most_frames == 1 || !best) return {};
  if (context.is_one_at_a_time()) {
    context.report.notes.push_back(
        "calls of several frames are not used: memory has no room for more than one plan at a "
        "time");
    return {};
  }
  if (context.out_of_time()) {
    context.shortlist.leave_out("calls of several frames");
    return {};
  }
  context.say("measuring calls of several frames");
  auto contestant = context.contest->entries()[*best].contestant;
  PENSTOCK_TRY(const auto* graph, context.graph_of(contestant.as_is));
  partition::SplitOptions split{.by = contestant.split};
  split.custom_ops = context.options.custom_ops;
  split.weights = context.weights.get();
  split.batches[""] = {.frames = context.options.most_frames, .measured = true};
  const auto choices = choose_batches(*graph, split, context.backends, context.options.stopped);
  if (!choices) return choices.error();
  int most = 1;
  for (const auto& choice : *choices) most = std::max(most, choice.frames);
  if (most == 1) {
    context.report.notes.push_back(why_none(*choices));
    return {};
  }
  contestant.batches = std::move(split.batches);
  contestant.name += concat(", up to ", most, " frames in a call");
  const auto place = proposals.enter_again(std::move(contestant));
  return place ? Status() : Status(place.error());
}

}  // namespace penstock::tune
