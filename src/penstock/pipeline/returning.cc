// Gives frames of a lost device back, takes those of others, and waits for inputs made again.
#include "penstock/pipeline/returning.h"

namespace penstock::pipeline {

bool Returning::take(Lane& lane) {
  auto& stage = self_.stage;
  if (stage.returns.empty()) return false;
  const auto turn = stage.in_turn ? stage.progress.done() + 1 : UINT64_MAX;
  const auto taken = stage.returns.take(turn);
  if (!taken) return false;
  lane.frames.assign(1, taken->frame);
  lane.begun = taken->begun;
  lane.again = taken->again;
  return true;
}

// Functions have side effects; what a server of others does the plan knows.
bool Returning::may_run_again() const {
  const auto& partition = *self_.stage.partitions.front().plan;
  return !partition.served || partition.idempotent;
}

// Where a state is written behind, frames run that failed elsewhere: who takes it looks again.
bool Returning::may_come_back(FrameNumber frame) {
  auto& state = self_.state;
  return !state.ending.stopping() && state.ending.spares(frame) &&
         (self_.stage.feeds_state || state.record(frame).alive());
}

// Not where all would do the same: a frame that nobody computes says why.
bool Returning::hand_back(const Returns::Taken& taken) {
  auto& returns = self_.stage.returns;
  if (!returns.enabled() || (taken.begun && !may_run_again())) return false;
  if (!may_come_back(taken.frame)) return false;
  if (!ability_.look() && !ability_.others_are_able()) return false;
  return returns.give(taken);
}

void Returning::hand_back(Lane& lane) {
  std::erase_if(lane.frames,
                [&](FrameNumber frame) { return hand_back({frame, lane.begun, lane.again}); });
}

void Returning::enter(Lane& lane) {
  std::erase_if(lane.frames,
                [&](FrameNumber frame) { return !enter({frame, lane.begun, lane.again}); });
}

bool Returning::enter(const Returns::Taken& taken) {
  auto& stage = self_.stage;
  for (Edge* edge : stage.lossable_in) {
    if (edge->remakes.enter(stage.returns, taken)) continue;
    for (Edge* before : stage.lossable_in) {
      if (before == edge) return false;
      before->remakes.leave(taken.frame);
    }
  }
  return true;
}

void Returning::leave_inputs(FrameNumber frame, const Edge* lost) {
  for (Edge* edge : self_.stage.lossable_in) {
    if (edge != lost) edge->remakes.leave(frame);
  }
}

bool Returning::recover(Lane& lane, std::size_t i) {
  if (wait_for_remake(lane, i)) return true;
  const FrameNumber frame = lane.call->frame(i);
  if (!hand_back({frame, true, lane.again})) return false;
  leave_inputs(frame);
  return true;
}

// Of several inputs that were lost, the others are found when it runs again.
bool Returning::wait_for_remake(Lane& lane, std::size_t i) {
  auto& stage = self_.stage;
  const FrameNumber frame = lane.call->frame(i);
  if (stage.lossable_in.empty() || !may_come_back(frame)) return false;
  Edge* const lost = lane.call->lost_input(i);
  if (lost == nullptr || !lost->remakes.lose(stage.returns, {frame, true, lane.again}))
    return false;
  leave_inputs(frame, lost);
  return true;
}

}  // namespace penstock::pipeline
