// Worker: what becomes of frames whose device is lost.
#include <algorithm>
#include <optional>

#include "penstock/pipeline/guarded.h"
#include "penstock/pipeline/state.h"
#include "penstock/pipeline/worker.h"

namespace penstock::pipeline {

bool Worker::others_are_able() const {
  if (stage_.has_homes) return false;  // Each stream has one replica.
  return stage_.able.load(std::memory_order_seq_cst) > 0 ||
         stage_.able_standbys.load(std::memory_order_seq_cst) > 0;
}

// Functions have side effects; what a server of others does the plan knows.
bool Worker::may_run_again() const {
  const auto& partition = *stage_.partitions.front().plan;
  return !partition.served || partition.idempotent;
}

bool Worker::stand_by() {
  for (;;) {
    if (stage_.needs_standby()) return true;
    parker.prepare();
    const bool leaves = leave_at(stage_.next.load(std::memory_order_seq_cst));
    if (leaves || stage_.needs_standby()) {
      parker.abandon();
      if (leaves) return false;
      continue;
    }
    idled_ = true;
    parker.sleep(kNever);
  }
}

bool Worker::take_returned(Lane& lane) {
  if (stage_.returns.empty()) return false;
  const auto turn = stage_.in_turn ? stage_.progress.done() + 1 : UINT64_MAX;
  const auto taken = stage_.returns.take(turn);
  if (!taken) return false;
  lane.frames.assign(1, taken->frame);
  lane.begun = taken->begun;
  return true;
}

// Not where all would do the same: a frame that nobody computes says why.
bool Worker::hand_back(FrameNumber frame, bool begun) {
  if (!stage_.returns.enabled() || (begun && !may_run_again())) return false;
  if (state_.ending.stopping() || !state_.ending.spares(frame)) return false;
  // Where a state is written behind, frames run that failed elsewhere: who takes it looks again.
  if (!stage_.feeds_state && !state_.record(frame).alive()) return false;
  const bool unable = look_whether_unable();
  if (unable && !others_are_able()) return false;
  return stage_.returns.give({frame, begun});
}

void Worker::hand_back(Lane& lane) {
  std::erase_if(lane.frames, [&](FrameNumber frame) { return hand_back(frame, lane.begun); });
}

void Worker::drop_returned() {
  if (!state_.ending.stopping()) return;
  while (const auto left = stage_.returns.take()) {
    if (!left->begun) begin_read(left->frame);
    state_.record(left->frame).fail(Outcome::kCancelled, [&] { return state_.ending.error(); });
    finish(left->frame);
  }
}

void Worker::wait_for_turn(FrameNumber frame) {
  idled_ = true;
  stage_.await_turn.fetch_add(1);
  parker.prepare();
  if (stage_.progress.done() >= frame || !stage_.returns.empty() || state_.ending.stopping() ||
      was_taken(frame)) {
    parker.abandon();
  } else {
    parker.sleep(kNever);
  }
  stage_.await_turn.fetch_sub(1);
}

}  // namespace penstock::pipeline
