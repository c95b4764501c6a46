// Writes the options that are set into the plan's edges and stages.
#include "penstock/plan/stream_options.h"

#include <algorithm>

namespace penstock::plan {

void apply(const StreamOptions& stream, Plan& plan) {
  for (auto& edge : plan.edges) {
    if (stream.input_policy && edge.from == kPipelineInput) edge.policy = *stream.input_policy;
    if (stream.capacity) edge.capacity = *stream.capacity;
    if (edge.policy == FullPolicy::kLatest) edge.capacity = 1;
  }
  for (auto& stage : plan.stages) {
    if (stream.pinned) stage.pinned = *stream.pinned;
    if (stream.max_run) stage.max_run = stream.max_run;
    if (stream.max_left_behind) stage.max_left_behind = *stream.max_left_behind;
  }
  if (stream.max_age) plan.max_age = stream.max_age;
  if (stream.on_error) plan.on_error = *stream.on_error;
  if (stream.streams) plan.streams = *stream.streams;
}

std::vector<std::string> options_without_effect(const StreamOptions& stream, const Plan& plan) {
  if (stream.capacity.value_or(1) == 1) return {};
  const auto narrow = std::ranges::find(plan.edges, FullPolicy::kLatest, &Edge::policy);
  if (narrow == plan.edges.end()) return {};
  return {concat("capacity: the edge of '", narrow->tensors.front(),
                 "' keeps one frame, as its policy is 'latest'; the other edges have ",
                 *stream.capacity, " slots")};
}

bool keep_all_frames(Plan& plan) {
  bool changed = plan.max_age.has_value();
  plan.max_age.reset();
  for (auto& edge : plan.edges) {
    changed = changed || edge.policy != FullPolicy::kBlock;
    edge.policy = FullPolicy::kBlock;
  }
  return changed;
}

}  // namespace penstock::plan
