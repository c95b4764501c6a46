// Worker: what becomes of frames whose device is lost.
#include <algorithm>
#include <optional>

#include "penstock/base/words.h"
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
  lane.again = taken->again;
  return true;
}

// Not where all would do the same: a frame that nobody computes says why.
bool Worker::hand_back(const Returns::Taken& taken) {
  if (!stage_.returns.enabled() || (taken.begun && !may_run_again())) return false;
  if (!may_come_back(taken.frame)) return false;
  const bool unable = look_whether_unable();
  if (unable && !others_are_able()) return false;
  return stage_.returns.give(taken);
}

void Worker::hand_back(Lane& lane) {
  std::erase_if(lane.frames,
                [&](FrameNumber frame) { return hand_back({frame, lane.begun, lane.again}); });
}

// Where a state is written behind, frames run that failed elsewhere: who takes it looks again.
bool Worker::may_come_back(FrameNumber frame) {
  return !state_.ending.stopping() && state_.ending.spares(frame) &&
         (stage_.feeds_state || state_.record(frame).alive());
}

void Worker::enter(Lane& lane) {
  std::erase_if(lane.frames,
                [&](FrameNumber frame) { return !enter({frame, lane.begun, lane.again}); });
}

bool Worker::enter(const Returns::Taken& taken) {
  for (Edge* edge : stage_.lossable_in) {
    if (edge->remakes.enter(stage_.returns, taken)) continue;
    for (Edge* before : stage_.lossable_in) {
      if (before == edge) return false;
      before->remakes.leave(taken.frame);
    }
  }
  return true;
}

void Worker::leave_inputs(FrameNumber frame, const Edge* lost) {
  for (Edge* edge : stage_.lossable_in) {
    if (edge != lost) edge->remakes.leave(frame);
  }
}

bool Worker::recover(Lane& lane, std::size_t i) {
  if (wait_for_remake(lane, i)) return true;
  const FrameNumber frame = lane.call->frame(i);
  if (!hand_back({frame, true, lane.again})) return false;
  leave_inputs(frame);
  return true;
}

// Of several inputs that were lost, the others are found when it runs again.
bool Worker::wait_for_remake(Lane& lane, std::size_t i) {
  const FrameNumber frame = lane.call->frame(i);
  if (stage_.lossable_in.empty() || !may_come_back(frame)) return false;
  Edge* const lost = lane.call->lost_input(i);
  if (lost == nullptr || !lost->remakes.lose(stage_.returns, {frame, true, lane.again}))
    return false;
  leave_inputs(frame, lost);
  return true;
}

void Worker::drop_returned() {
  if (!state_.ending.stopping()) return;
  while (const auto left = stage_.returns.take()) {
    if (left->again != nullptr) {
      left->again->remakes.made(left->frame);
      continue;
    }
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

void Worker::look_for_lost() {
  std::erase_if(lost_, [](const auto& call) { return !call->in_progress_still(); });
}

bool Worker::look_whether_unable() {
  look_for_lost();
  const auto lost = [](const auto& executable) { return executable->is_lost(); };
  const bool unable = lost_.size() > static_cast<std::size_t>(stage_.plan->max_left_behind) ||
                      (may_be_lost_ && std::ranges::any_of(executables_, lost));
  if (unable == unable_) return unable;
  (stands_by() ? stage_.able_standbys : stage_.able).fetch_add(unable ? -1 : 1);
  unable_ = unable;
  stage_.returns.wake();  // Others take its place, or give it back.
  return unable;
}

bool Worker::claim_once_able(Lane& lane) {
  for (;;) {
    if (!leave_to_others() || !claim(lane)) return false;
    if (!look_whether_unable()) return true;
    hand_back(lane);
    refuse(lane);
  }
}

bool Worker::leave_to_others() {
  while (look_whether_unable() && others_are_able()) {
    parker.prepare();
    if (leave_at(stage_.next.load())) {
      parker.abandon();
      return false;
    }
    parker.sleep(now_ns() + kLook);
  }
  return true;
}

Error Worker::unavailable() const {
  Status told = guarded([&]() -> Status {
    if (lost_.empty()) {
      const auto& place = stage_.places[replica_];
      return make_error(Code::kUnavailable, "device '", device::to_string(place),
                        "' is lost, and no other of the stage is there")
          .within({Where::kPeer, place.host});
    }
    return make_error(Code::kUnavailable, "unavailable: ", counted(lost_.size(), "hanging call"),
                      ", at most ", stage_.plan->max_left_behind,
                      " may be left behind (max_left_behind)");
  });
  return std::move(told).error();
}

}  // namespace penstock::pipeline
