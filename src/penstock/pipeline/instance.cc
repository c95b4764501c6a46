// What an instance waits for before it begins a frame: inputs, its turn, room, states.
#include "penstock/pipeline/instance.h"

#include <algorithm>

namespace penstock::pipeline {

bool Instance::leaves_at(FrameNumber frame) const {
  if (state.ending.stopping()) return true;
  if (!state.ending.closed() || frame < state.source.done()) return false;
  if (!stage.returns.enabled()) return true;
  // What another instance has may come back, and what was passed on may be lost.
  const FrameNumber pushed = state.source.done();
  return stage.progress.done() >= pushed &&
         std::ranges::all_of(stage.askers,
                             [&](const Stage* asker) { return asker->progress.done() >= pushed; });
}

std::pair<Wait*, FrameNumber> Instance::obstacle(FrameNumber frame) {
  const auto reached = [](Wait& wait, FrameNumber least) {
    if (wait.seen < least) wait.seen = wait.progress->done();
    return wait.seen >= least;
  };
  for (auto& input : inputs) {
    if (!reached(input, frame + 1)) return {&input, frame + 1};
  }
  for (auto& room : rooms) {
    if (frame < room.capacity) continue;
    const FrameNumber least = frame - room.capacity + 1;
    if (!reached(room.wait, least)) return {&room.wait, least};
  }
  return {nullptr, 0};
}

void Instance::wait_for_input(FrameNumber frame) {
  idled = true;
  const auto late =
      std::ranges::find_if(inputs, [&](const Wait& wait) { return wait.seen <= frame; });
  Batch batch;
  if (replicas == 1) {
    const FrameNumber pushed = state.source.done();
    const FrameNumber upstream = pushed > frame ? pushed - frame : 0;
    batch.frames = std::clamp<FrameNumber>(upstream / 2, 1, state.wake_batch);
  }
  sleep_until(*late, frame + 1, batch, kNever,
              [&] { return leaves_at(frame) || was_taken(frame) || !stage.returns.empty(); });
}

void Instance::wait_for_turn(FrameNumber frame) {
  idled = true;
  stage.await_turn.fetch_add(1);
  parker.prepare();
  if (stage.progress.done() >= frame || !stage.returns.empty() || state.ending.stopping() ||
      was_taken(frame)) {
    parker.abandon();
  } else {
    parker.sleep(kNever);
  }
  stage.await_turn.fetch_sub(1);
}

bool Instance::has_room(FrameNumber frame) {
  if (state.ending.cancelled()) return true;
  const auto [wait, least] = obstacle(frame);
  if (wait == nullptr) return true;
  sleep_for_room(*wait, least, [&] {
    return state.ending.cancelled() || leaves_at(frame) || was_taken(frame) ||
           !stage.returns.empty();
  });
  return false;
}

bool Instance::wait_for(Room& room, FrameNumber least) {
  bool waited = false;
  const auto interrupted = [&] { return state.ending.cancelled(); };
  while (room.wait.seen < least) {
    room.wait.seen = room.wait.progress->done();
    if (room.wait.seen >= least) break;
    waited = true;
    if (interrupted()) break;
    sleep_for_room(room.wait, least, interrupted);
  }
  return waited;
}

void Instance::sleep_for_room(Wait& wait, FrameNumber least,
                              const std::function<bool()>& interrupted) {
  idled = true;
  const bool of_caller = wait.progress == &state.sink;
  if (of_caller) state.loans.want_back(least);
  if (of_caller) ++state.awaiting_release;
  sleep_until(wait, least, {state.wake_batch}, kNever, interrupted);
  if (of_caller) --state.awaiting_release;
}

// A reader of its own state has it already: it sees the frames in order.
bool Instance::wait_for_states(FrameNumber frame) {
  bool waited = false;
  const auto interrupted = [&] { return state.ending.cancelled(); };
  const FrameNumber least = state.record(frame).behind;
  for (auto& wait : states) {
    while (wait.seen < least) {
      wait.seen = wait.progress->done();
      if (wait.seen >= least) break;
      idled = waited = true;
      if (interrupted()) break;
      sleep_until(wait, least, {}, kNever, interrupted);
    }
  }
  return waited;
}

}  // namespace penstock::pipeline
