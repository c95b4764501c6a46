// Runs a plan that shows every tensor between stages, and makes a network's frames of these.
#include "penstock/app/recording.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "penstock/app/parts.h"
#include "penstock/base/option_name.h"
#include "penstock/base/thread.h"
#include "penstock/cost/profiler.h"
#include "penstock/frames/random.h"
#include "penstock/measure/slow_runs.h"
#include "penstock/plan/bound.h"
#include "penstock/session/session.h"

namespace penstock::app {
namespace {

/// With every tensor between stages among the outputs.
plan::Plan with_all_shown(plan::Plan plan) {
  for (const auto& stage : plan.stages) {
    for (const auto& name : stage.outputs) {
      const auto shown = std::ranges::find(plan.outputs, name, &plan::TensorInfo::name);
      if (shown != plan.outputs.end()) continue;
      const auto info = *plan.find_tensor(name);
      std::erase_if(plan.tensors, [&](const auto& other) { return other.name == name; });
      plan.outputs.push_back(info);
    }
  }
  plan::connect(plan);
  return plan;
}

/// The first of several items; none: there are none.
std::optional<Tensor> first_item(const Tensor& items) {
  if (items.kind() != Tensor::Kind::kDense || items.dims().empty() || items.dims()[0] == 0) {
    return std::nullopt;
  }
  std::vector<std::int64_t> dims(items.dims().begin() + 1, items.dims().end());
  auto item = Tensor::allocate(items.dtype(), std::move(dims));
  if (item.bytes() > 0) std::memcpy(item.data(), items.data(), item.bytes());
  return item;
}

}  // namespace

Result<Recording> record(const Tuning& tuning, const plan::Package& written,
                         const measure::Ring& given) {
  Recording recording;
  tuning.say("recording what passes between the nodes");
  const auto shown = with_all_shown(written.plan);
  auto pipeline = tuning.start(shown, written.folder);
  if (!pipeline) return place_error(tuning.app, std::move(pipeline).error());
  const auto tell = measure::once([&] {
    tuning.options.warn(
        measure::tell_long_run(tuning.app.name, cost::kLongRun, tuning.options.frames.empty()));
  });
  std::optional<Error> first;
  measure::Ring kept;
  for (const auto& frame : given) {
    if (tuning.options.stopped()) return stopped_early();
    auto outputs = run_within(cost::kLongRun, tell, [&] {
      return run_within(
          measure::kLongestRun, [&] { (*pipeline)->cancel(); },
          [&] { return (*pipeline)->run(frame); });
    });
    if (tuning.options.stopped()) return stopped_early();
    const bool endless = measure::is_endless(outputs);
    if (endless) outputs = measure::endless_run(measure::kLongestRun);
    if (!outputs) {
      if (!first) first = std::move(outputs).error();
      if (endless) break;  // The pipeline has ended.
      continue;
    }
    kept.push_back(frame);
    auto& values = recording.between.emplace_back();
    for (std::size_t i = 0; i < frame.size(); ++i) values[shown.inputs[i].name] = frame[i];
    for (std::size_t i = 0; i < outputs->size(); ++i) {
      values[shown.outputs[i].name] = std::move((*outputs)[i]);
    }
  }
  if (kept.empty()) {
    const auto advice = tuning.options.frames.empty()
                            ? frames::advice_on_random(
                                  *first, shown.inputs,
                                  concat("give frames that come out (", OptionName::kFrames, ")"),
                                  plan::names_of_bound(shown.bound_inputs))
                            : std::string();
    return place_error(tuning.app, *std::move(first)).adding(advice);
  }
  if (kept.size() < given.size()) {
    recording.left_out =
        concat(given.size() - kept.size(), " of ", given.size(),
               " frames did not come out and are left out; the first: ", first->message());
  }
  recording.ring = frames::repeated(std::move(kept), kRing, !shown.states.empty());
  for (const auto& stage : (*pipeline)->stats().stages) {
    recording.seconds[stage.name] = stage.compute_infer.p50_ns / 1e9;
  }
  return recording;
}

Result<measure::Ring> frames_of(const Tuning& tuning, const plan::Package& written,
                                const Recording& recording, const Node& node,
                                const graph::Graph& graph,
                                const std::vector<plan::StateEdge>& states) {
  const auto inputs = inputs_of(graph, states);
  const auto& between = recording.between;
  const auto& stages = written.plan.stages;
  const auto stage = std::ranges::find(stages, node.name, &plan::Stage::name);
  const auto& partition = stage->partitions.front();
  measure::Ring ring;
  for (std::size_t f = 0; f < between.size(); ++f) {
    PENSTOCK_TRY(auto frame, frames::random_frame(inputs, tuning.options.random, f));
    bool whole = true;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto& tensor = partition.tensor_of(inputs[i].name);
      // A state that another node wrote: what it was for the frame before.
      const auto* const state = written.plan.find_state(tensor);
      if (state != nullptr && f == 0) {
        PENSTOCK_TRY(frame[i], plan::initial_value(written.plan, written.folder, *state));
        continue;
      }
      const auto& values = state != nullptr ? between[f - 1] : between[f];
      const auto value = values.find(state != nullptr ? state->from : tensor);
      if (value == values.end()) continue;
      const bool each = std::ranges::find(node.each, inputs[i].name) != node.each.end();
      auto given = each ? first_item(value->second) : std::optional(value->second);
      whole = whole && given;
      if (given) frame[i] = *std::move(given);
    }
    if (whole) ring.push_back(std::move(frame));
  }
  return ring;
}

}  // namespace penstock::app
