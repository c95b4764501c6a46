// Refuses certain stand-by devices, and what stages in other memories cannot do, by name.
#include "penstock/pipeline/supported.h"

#include <algorithm>

#include "penstock/base/error.h"

namespace penstock::pipeline {
namespace {

template <typename... Args>
Error not_yet(const Args&... what) {
  return make_error(Code::kUnimplemented, what..., "; leave it out of the plan");
}

Status check_stage(const plan::Plan& plan, const plan::Stage& stage) {
  if (stage.standby.empty()) return {};
  const auto refuse = [&](const char* why) {
    return not_yet("standby: expected no device, found '", device::to_string(stage.standby.front()),
                   "': ", why);
  };
  if (stage.partitions.front().backend == plan::kFunctionBackend) {
    return refuse("a function is never run again");
  }
  const bool writes_state = std::ranges::any_of(plan.states, [&](const plan::StateEdge& state) {
    return std::ranges::find(stage.outputs, state.from) != stage.outputs.end();
  });
  if (writes_state && stage.devices.size() > 1) {
    return refuse("each stream has one replica, where its states are written");
  }
  return {};
}

}  // namespace

Status check_supported(const plan::Plan& plan) {
  for (const auto& stage : plan.stages) {
    if (Status supported = check_stage(plan, stage); !supported) {
      return std::move(supported).error().within({Where::kStage, stage.name});
    }
  }
  return {};
}

Status check_supported(const Stage& stage, const backend::Memory& memory) {
  const plan::Stage& plan = *stage.plan;
  const auto refuse = [&](const auto&... what) {
    return make_error(Code::kUnimplemented, what..., ", as it computes in memory '", memory.name(),
                      "', not the host's; leave it out of the plan, or run it on CPUs");
  };
  if (!plan.each.empty()) return refuse("each: expected none, found '", plan.each.front(), "'");
  for (const auto* states : {&stage.states_in, &stage.states_out}) {
    for (const StateEdge* state : *states) {
      if (!state->type().max_bytes())
        return refuse("state '", state->to, "': expected a shape with a bound, found ",
                      state->type());
      if (same_memory(state->memory(), &memory)) continue;
      return refuse("state '", state->to,
                    "': expected that nobody reads or writes it in another memory, found one");
    }
  }
  for (std::size_t p = 0; p < stage.partitions.size(); ++p) {
    for (std::size_t place = 0; place < stage.places.size(); ++place) {
      const auto found = stage.partitions[p].backend->memory(stage.places[place]);
      if (same_memory(found.get(), stage.memories[place].get())) continue;
      return refuse("partition ", p + 1, ", of backend '", stage.partitions[p].plan->backend,
                    "': expected that it computes in the same memory as the others, found '",
                    name_of(found.get()), "'");
    }
  }
  for (const auto* edges : {&stage.in_edges, &stage.out_edges}) {
    for (const Edge* edge : *edges) {
      for (std::size_t t = 0; t < edge->types.size(); ++t) {
        if (edge->types[t].max_bytes()) continue;
        return refuse("tensor '", edge->tensors[t], "': expected a shape with a bound, found ",
                      edge->types[t]);
      }
    }
  }
  return {};
}

}  // namespace penstock::pipeline
