// Runs the model frame by frame, with its states as plain inputs and outputs.
#include "penstock/tune/sequence.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "penstock/measure/reference.h"
#include "penstock/measure/slow_runs.h"
#include "penstock/measure/states.h"
#include "penstock/session/session.h"

namespace penstock::tune {
namespace {

/// The same network with its states as inputs and outputs, these alone.
Result<std::unique_ptr<measure::Reference>> make_step(const Sequence& sequence) {
  auto open = sequence.package;
  open.plan.inputs = inputs_of(sequence.graph);
  open.plan.outputs.clear();
  for (const auto& state : std::exchange(open.plan.states, {})) {
    open.plan.outputs.push_back({state.from, open.plan.find_tensor(state.from)->type});
  }
  return measure::whole_reference(sequence.model, open, sequence.backends, {});
}

frames::Frame complete(const Sequence& sequence, const frames::Frame& frame,
                       const measure::States& states) {
  frames::Frame whole;
  auto given = frame.begin();
  for (const auto& input : inputs_of(sequence.graph)) {
    const auto state = std::ranges::find(states.edges(), input.name, &plan::StateEdge::to);
    whole.push_back(state == states.edges().end()
                        ? *given++
                        : states.value(static_cast<std::size_t>(state - states.edges().begin())));
  }
  return whole;
}

}  // namespace

Result<measure::Ring> with_states(const Sequence& sequence, std::span<const frames::Frame> frames) {
  if (sequence.package.plan.states.empty()) return measure::Ring(frames.begin(), frames.end());
  PENSTOCK_TRY(auto states,
               measure::States::create(sequence.package.plan, sequence.package.folder));
  std::unique_ptr<measure::Reference> step;
  measure::Ring ring;
  for (const auto& frame : frames) {
    if (!ring.empty()) {
      if (!step) {
        PENSTOCK_TRY(step, make_step(sequence));
        step->limit_runs(measure::kLongestRun);
      }
      auto ran = step->run(ring.back());
      if (measure::is_endless(ran)) ran = measure::endless_run(measure::kLongestRun);
      PENSTOCK_TRY(auto written, std::move(ran));
      for (std::size_t i = 0; i < written.size(); ++i) states.set(i, std::move(written[i]));
    }
    ring.push_back(complete(sequence, frame, states));
  }
  return ring;
}

}  // namespace penstock::tune
