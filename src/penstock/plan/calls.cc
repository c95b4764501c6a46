// Looks for batches beyond the slots of edges, calls that nothing leaves behind, and calls in turn.
#include "penstock/plan/calls.h"

#include <algorithm>

#include "penstock/base/option_name.h"

namespace penstock::plan {
namespace {

/// Slots that the plan gives the edge; 0: as many as suit it.
int slots_of(const Edge& edge) {
  return edge.policy == FullPolicy::kLatest ? 1 : edge.capacity;
}

/// The edge of the stage with the fewest slots, of those whose number the plan says; null: none.
const Edge* narrowest(const Plan& plan, int stage) {
  const Edge* least = nullptr;
  for (const auto& edge : plan.edges) {
    const bool is_its = edge.from == stage || std::ranges::find(edge.to, stage) != edge.to.end();
    if (!is_its || slots_of(edge) == 0) continue;
    if (least == nullptr || slots_of(edge) < slots_of(*least)) least = &edge;
  }
  return least;
}

std::string note_on(const Stage& stage, const Edge& edge) {
  const bool latest = edge.policy == FullPolicy::kLatest;
  const auto why = latest ? "policy 'latest'" : concat("capacity ", edge.capacity);
  const auto other =
      latest ? "another policy" : concat("a capacity of ", stage.batch.frames, " or more");
  return concat("stage '", stage.name, "': takes up to ", stage.batch.frames,
                " frames in a call (batch), and never gets more than ", slots_of(edge),
                ", as the edge of '", edge.tensors.front(), "' holds no more (", why,
                "); expected ", other, ", or a batch of ", slots_of(edge));
}

/// Whether what the stage `from` makes of a frame goes into what `to` reads of it.
bool leads(const Plan& plan, std::size_t from, std::size_t to) {
  std::vector<bool> reached(plan.stages.size());
  reached[from] = true;
  for (std::size_t at = from; at < to; ++at) {  // Edges lead forward.
    if (!reached[at]) continue;
    for (const auto& edge : plan.edges) {
      if (edge.from != static_cast<int>(at)) continue;
      for (const int reader : edge.to) {
        if (reader >= 0) reached[static_cast<std::size_t>(reader)] = true;
      }
    }
  }
  return reached[to];
}

/// A state that the stage writes, and that it or one before it reads; null: none.
const StateEdge* closed_by(const Plan& plan, std::size_t stage) {
  const auto names = [](const std::vector<std::string>& list, const std::string& name) {
    return std::ranges::find(list, name) != list.end();
  };
  for (const auto& state : plan.states) {
    if (!names(plan.stages[stage].outputs, state.from)) continue;
    for (std::size_t reader = 0; reader <= stage; ++reader) {
      if (names(plan.stages[reader].inputs, state.to) && leads(plan, reader, stage)) return &state;
    }
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> batches_beyond_streams(const Plan& plan) {
  std::vector<std::string> notes;
  const int streams = plan.streams.most;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const auto& stage = plan.stages[i];
    const auto* const state = closed_by(plan, i);
    if (!stage.each.empty() || stage.batch.frames <= streams || state == nullptr) continue;
    notes.push_back(concat("stage '", stage.name, "': takes up to ", stage.batch.frames,
                           " frames in a call (batch), and never gets more than ", streams,
                           ", as it writes the state '", state->to,
                           "', which the next frame of a stream waits for, and the plan allows ",
                           streams, streams == 1 ? " stream" : " streams", "; expected ",
                           stage.batch.frames, " streams or more, or a batch of ", streams));
  }
  return notes;
}

std::vector<std::string> batches_beyond_edges(const Plan& plan) {
  std::vector<std::string> notes;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const auto& stage = plan.stages[i];
    if (!stage.each.empty()) continue;  // The items of one frame do not wait for others.
    const auto* const edge = narrowest(plan, static_cast<int>(i));
    if (edge == nullptr || slots_of(*edge) >= stage.batch.frames) continue;
    notes.push_back(note_on(stage, *edge));
  }
  return notes;
}

std::vector<int> frames_of_calls(const Stage& stage) {
  std::vector<int> all;
  for (const auto& model : stage.partitions.front().batched) all.push_back(model.frames);
  std::erase_if(all, [&](int frames) {
    return std::ranges::any_of(stage.partitions, [&](const Partition& partition) {
      return std::ranges::find(partition.batched, frames, &BatchedModel::frames) ==
             partition.batched.end();
    });
  });
  return all;
}

std::vector<std::string> batches_beyond_models(const Plan& plan) {
  std::vector<std::string> notes;
  for (const auto& stage : plan.stages) {
    const auto frames = frames_of_calls(stage);
    if (frames.empty() || frames.back() >= stage.batch.frames) continue;
    notes.push_back(concat("stage '", stage.name, "': takes up to ", stage.batch.frames,
                           " frames in a call (batch), and never gets more than ", frames.back(),
                           ", as its models take no more; expected a model of ", stage.batch.frames,
                           " (split the model again with ", OptionName::kBatch, "), or a batch of ",
                           frames.back()));
  }
  return notes;
}

std::vector<std::string> calls_never_left_behind(const Plan& plan) {
  std::vector<std::string> names;
  for (const auto& stage : plan.stages) {
    if (stage.max_left_behind > 0 && !stage.max_run) names.push_back("'" + stage.name + "'");
  }
  if (names.empty()) return {};
  return {concat(names.size() == 1 ? "stage " : "stages ", join(names, ", "),
                 ": a call that hangs may be left behind (max_left_behind), and never is, as no "
                 "time tells that it hangs; expected ",
                 OptionName::kMaxRun, " too, or a max_left_behind of 0")};
}

std::vector<std::string> separate_draws(const Plan& plan) {
  std::vector<std::string> drawing;
  bool replicated = false;
  for (const auto& stage : plan.stages) {
    if (stage.draws.empty()) continue;
    const auto replicas = stage.devices.size();
    replicated = replicated || replicas > 1;
    const auto others = stage.draws.size() - 1;
    drawing.push_back(concat(
        "'", stage.name, "'", replicas > 1 ? concat(" of ", replicas, " replicas") : "", " (node '",
        stage.draws.front(), "'", others > 0 ? concat(" and ", others, " more") : "", ")"));
  }
  if (drawing.size() < 2 && !replicated) return {};
  const bool one = drawing.size() == 1;
  return {concat(
      one ? "stage " : "stages ", join(drawing, ", "), one ? " draws" : " draw",
      " random numbers: each stage and each replica draws its own, which may be alike; "
      "expected one stage of one replica that holds all these nodes (split the model "
      "with ",
      in_words_of_caller("--cut elsewhere, --replicas 1)", "'cuts' elsewhere, replicas=1)"))};
}

std::vector<std::string> why_one_lane(const Plan& plan, const Stage& stage) {
  std::vector<std::string> reasons;
  if (stage.stateful) reasons.emplace_back("it is stateful and sees the frames one at a time");
  if (!stage.each.empty()) {
    reasons.emplace_back("it runs for the items of a frame one after the other");
  }
  if (stage.partitions.size() > 1) {
    reasons.emplace_back("its partitions run one after the other");
  }
  const auto is_function = [](const Partition& of) { return of.backend == kFunctionBackend; };
  if (std::ranges::any_of(stage.partitions, is_function)) {
    reasons.emplace_back("a function takes one call at a time");
  }
  for (const auto& state : plan.states) {
    if (std::ranges::find(stage.outputs, state.from) == stage.outputs.end()) continue;
    reasons.push_back(concat("it writes '", state.from, "', a state that the next frame reads"));
  }
  return reasons;
}

}  // namespace penstock::plan
