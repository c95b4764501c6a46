// Worker: which frames the next call takes.
#include <algorithm>

#include "penstock/pipeline/state.h"
#include "penstock/pipeline/worker.h"

namespace penstock::pipeline {

bool Worker::has_inputs(FrameNumber frame) {
  bool ready = true;
  for (auto& wait : inputs) {
    if (wait.seen <= frame) wait.seen = wait.progress->done();
    ready = ready && wait.seen > frame;
  }
  return ready;
}

// Replicas claim a frame only once its inputs are there, so that the idle one takes it.
bool Worker::claim(Lane& lane) {
  for (;;) {
    if (unable_) look_whether_unable();
    if (!stage_.returns.empty() && take_returned(lane)) return true;
    const FrameNumber next = next_frame();
    if (!has_inputs(next)) {
      if (leave_at(next)) return false;
      wait_for_input(next);
      continue;
    }
    if (stage_.in_turn && stage_.progress.done() < next) {
      wait_for_turn(next);
      if (state_.ending.stopping()) return false;
      continue;
    }
    if (stage_.has_homes && is_of_others(next)) continue;  // Its inputs came this moment.
    if (state_.ending.stopping()) return false;
    if (stage_.returns.enabled() && !has_room(next)) continue;
    const bool more = choose(next, lane.frames);
    if (const auto until = more ? fills_until(lane.frames) : 0; until > 0) {
      idled_ = true;
      fill(next, until,
           [&] { return leave_at(chosen_until_) || was_taken(next) || !stage_.returns.empty(); });
      continue;
    }
    if (take(lane.frames)) return true;
  }
}

// Where frames may come back, a frame is taken only once there is room for it: who holds it could
// take none of those before it, for which that room waits. False: look again.
bool Worker::has_room(FrameNumber next) {
  if (state_.ending.cancelled()) return true;
  const auto [wait, least] = obstacle(next);
  if (wait == nullptr) return true;
  sleep_for_room(*wait, least, [&] {
    return state_.ending.cancelled() || leave_at(next) || was_taken(next) ||
           !stage_.returns.empty();
  });
  return false;
}

FrameNumber Worker::next_frame() {
  if (!stage_.has_homes) return stage_.next.load(std::memory_order_acquire);
  while (has_inputs(own_next_) && is_of_others(own_next_)) ++own_next_;
  return own_next_;
}

// Whether a replica that waits for `next` waits in vain.
bool Worker::was_taken(FrameNumber next) const {
  return !stage_.has_homes && stage_.next.load(std::memory_order_seq_cst) != next;
}

// Another frame may have the record of one that is complete: then the seat read is not its own.
bool Worker::is_of_others(FrameNumber frame) const {
  const auto seat = state_.record(frame).seat.load(std::memory_order_acquire);
  if (stage_.progress.done() > frame) return true;
  return seat % replicas_ != replica_;
}

bool Worker::choose(FrameNumber next, std::vector<FrameNumber>& chosen) {
  chosen.clear();
  if (most_ == 1) {
    chosen.push_back(next);
    return false;
  }
  const auto replicas = static_cast<FrameNumber>(replicas_);
  const FrameNumber looked = next + 2 * most_ * replicas;
  const FrameNumber there = inputs_until(looked);
  const FrameNumber end = alike_until(next, room_until(next, there));
  // Replicas share what is there, unless the plan has them wait for full calls.
  const bool shares = replicas > 1 && !stage_.has_homes && stage_.plan->batch.wait.count() == 0;
  const FrameNumber most = shares ? std::min(most_, (end - next + replicas - 1) / replicas) : most_;
  counted_ = 0;
  for (chosen_until_ = next; chosen_until_ < end && counted_ < most; ++chosen_until_) {
    if (stage_.has_homes && is_of_others(chosen_until_)) continue;
    if (!may_join(chosen_until_, chosen)) return false;
    chosen.push_back(chosen_until_);
    counted_ += counts(chosen_until_) ? 1 : 0;
  }
  const bool come =
      chosen.size() < stage_.most_streams && chosen_until_ < next + stage_.most_waiting;
  return counted_ < most && end == there && there < looked && come;
}

FrameNumber Worker::inputs_until(FrameNumber most) {
  for (auto& wait : inputs) {
    if (wait.seen < most) wait.seen = wait.progress->done();
    most = std::min(most, wait.seen);
  }
  return most;
}

// The first one may wait for its room.
FrameNumber Worker::room_until(FrameNumber next, FrameNumber most) {
  for (auto& room : rooms) {
    if (room.wait.seen + room.capacity < most) room.wait.seen = room.wait.progress->done();
    most = std::min(most, std::max(room.wait.seen + room.capacity, next + 1));
  }
  return most;
}

// Frames of one call have the same parameters.
FrameNumber Worker::alike_until(FrameNumber next, FrameNumber most) {
  if (stage_.plan->parameters.empty()) return most;
  const std::scoped_lock lock(stage_.parameter_mutex);
  for (const auto& version : stage_.versions) {
    if (version->first_frame > next) return std::min(most, version->first_frame);
  }
  return most;
}

// Where one frame's state is the next one's, a call takes one frame of each stream.
bool Worker::may_join(FrameNumber frame, const std::vector<FrameNumber>& chosen) const {
  if (chosen.empty() || (stage_.states_in.empty() && stage_.states_out.empty())) return true;
  // Of a frame that another replica may take meanwhile, the seat is not known.
  if (replicas_ > 1 && !stage_.has_homes) return false;
  const auto seat = [&](FrameNumber of) { return state_.record(of).seat.load(); };
  return std::ranges::none_of(chosen, [&](FrameNumber of) { return seat(of) == seat(frame); });
}

bool Worker::is_lost(FrameNumber frame) const {
  return !state_.record(frame).alive() || !state_.ending.spares(frame);
}

std::int64_t Worker::fills_until(std::vector<FrameNumber>& chosen) {
  const auto wait = std::chrono::nanoseconds(stage_.plan->batch.wait).count();
  if (wait == 0 || leave_at(chosen_until_) || state_.hurries(chosen.front())) return 0;
  const auto waits = std::ranges::find_if_not(chosen, [&](FrameNumber of) { return is_lost(of); });
  if (waits != chosen.begin()) {
    const bool together = filling_ == chosen.front() + 1 && waits != chosen.end();
    if (together) filling_ = *waits + 1;  // The next one has waited with it, and goes on.
    chosen.erase(waits, chosen.end());
    return 0;
  }
  const std::int64_t now = now_ns();
  const FrameNumber filling = chosen.front() + 1;
  if (std::exchange(filling_, filling) != filling) filling_ns_ = now;
  std::int64_t until = filling_ns_ + wait;
  for (const FrameNumber frame : chosen) {
    const std::int64_t deadline = state_.record(frame).deadline_ns;
    if (deadline == kNever) continue;
    // In time to be computed: half of what is left at most, as the first call's time is not known.
    const std::int64_t half = filling_ns_ + ((deadline - filling_ns_) / 2);
    until = std::min({until, half, deadline - (2 * average_ns_)});
  }
  return until > now ? until : 0;
}

// Once the pipeline is closed, no more come than were pushed.
FrameNumber Worker::full_at(FrameNumber next) const {
  const FrameNumber full =
      stage_.has_homes ? chosen_until_ + 1
                       : std::min(chosen_until_ + most_ - counted_,
                                  next + std::min(stage_.most_waiting, stage_.most_streams));
  return state_.ending.closed() ? std::min(full, state_.source.done()) : full;
}

void Worker::fill(FrameNumber first, std::int64_t until, const std::function<bool()>& interrupted) {
  fills_.exchange(first, std::memory_order_seq_cst);
  // Who let it out before that, woke nobody.
  if (!is_lost(first) && !state_.hurries(first)) {
    sleep_until(shortest(), full_at(first), {}, until,
                [&] { return fills_.load(std::memory_order_seq_cst) != first || interrupted(); });
  }
  fills_.exchange(kNoFrame, std::memory_order_seq_cst);
}

void Worker::let_out(FrameNumber first, FrameNumber end) {
  FrameNumber filling = fills_.fetch_add(0, std::memory_order_seq_cst);
  if (filling < first || filling >= end) return;
  if (fills_.compare_exchange_strong(filling, kNoFrame, std::memory_order_seq_cst)) parker.wake();
}

Wait& Worker::shortest() {
  return *std::ranges::min_element(inputs, {}, &Wait::seen);
}

bool Worker::take(const std::vector<FrameNumber>& chosen) {
  const FrameNumber end = chosen.back() + 1;
  if (stage_.has_homes) {
    own_next_ = end;
    return true;
  }
  FrameNumber next = chosen.front();
  if (stage_.places.size() > 1) {
    if (!stage_.next.compare_exchange_strong(next, end, std::memory_order_acq_rel)) return false;
    for (const FrameNumber frame : chosen) stage_.returns.begin(frame);
    return true;
  }
  stage_.next.store(end, std::memory_order_relaxed);
  return true;
}

void Worker::wait_for_input(FrameNumber frame) {
  idled_ = true;
  const auto late =
      std::ranges::find_if(inputs, [&](const Wait& wait) { return wait.seen <= frame; });
  Batch batch;
  if (replicas_ == 1) {
    const FrameNumber pushed = state_.source.done();
    const FrameNumber upstream = pushed > frame ? pushed - frame : 0;
    batch.frames = std::clamp<FrameNumber>(upstream / 2, 1, state_.wake_batch);
  }
  sleep_until(*late, frame + 1, batch, kNever,
              [&] { return leave_at(frame) || was_taken(frame) || !stage_.returns.empty(); });
}

}  // namespace penstock::pipeline
