// Chooses the frames of a call, and waits until it is full.
#include "penstock/pipeline/selection.h"

#include <algorithm>

namespace penstock::pipeline {

FrameNumber Selection::next_frame() {
  if (!self_.stage.has_homes) return self_.stage.next.load(std::memory_order_acquire);
  while (self_.has_inputs(own_next_) && is_of_others(own_next_)) ++own_next_;
  return own_next_;
}

// Another frame may have the record of one that is complete: then the seat read is not its own.
bool Selection::is_of_others(FrameNumber frame) const {
  const auto seat = self_.state.record(frame).seat.load(std::memory_order_acquire);
  if (self_.stage.progress.done() > frame) return true;
  return seat % self_.replicas != self_.replica;
}

std::int64_t Selection::choose(FrameNumber next, std::vector<FrameNumber>& chosen,
                               const Meter& meter) {
  return choose_of_those_there(next, chosen) ? fills_until(chosen, meter.average_ns()) : 0;
}

bool Selection::choose_of_those_there(FrameNumber next, std::vector<FrameNumber>& chosen) {
  chosen.clear();
  if (most_ == 1) {
    chosen.push_back(next);
    return false;
  }
  const auto replicas = static_cast<FrameNumber>(self_.replicas);
  const FrameNumber looked = next + 2 * most_ * replicas;
  const FrameNumber there = inputs_until(looked);
  const FrameNumber end = alike_until(next, room_until(next, there));
  // Replicas share what is there, unless the plan has them wait for full calls.
  const bool shares =
      replicas > 1 && !self_.stage.has_homes && self_.stage.plan->batch.wait.count() == 0;
  const FrameNumber most = shares ? std::min(most_, (end - next + replicas - 1) / replicas) : most_;
  counted_ = kept_ = 0;
  shape_ = 0;
  for (chosen_until_ = next; chosen_until_ < end && counted_ < most; ++chosen_until_) {
    if (self_.stage.most_kept < UINT64_MAX && !is_lost(chosen_until_)) ++kept_;
    if (self_.stage.has_homes && is_of_others(chosen_until_)) continue;
    if (!may_join(chosen_until_, chosen) || !is_of_shape(chosen_until_)) {
      left_some_ = !self_.stage.shaped_in.empty();
      return false;
    }
    chosen.push_back(chosen_until_);
    counted_ += counts(chosen_until_) ? 1 : 0;
  }
  left_some_ = !self_.stage.shaped_in.empty() && chosen_until_ < end;
  const bool come = chosen.size() < self_.stage.most_streams &&
                    chosen_until_ < next + self_.stage.most_waiting &&
                    kept_ < self_.stage.most_kept;
  return counted_ < most && end == there && there < looked && come;
}

FrameNumber Selection::inputs_until(FrameNumber most) {
  for (auto& wait : self_.inputs) {
    if (wait.seen < most) wait.seen = wait.progress->done();
    most = std::min(most, wait.seen);
  }
  return most;
}

// The first one may wait for its room.
FrameNumber Selection::room_until(FrameNumber next, FrameNumber most) {
  for (auto& room : self_.rooms) {
    if (room.wait.seen + room.capacity < most) room.wait.seen = room.wait.progress->done();
    most = std::min(most, std::max(room.wait.seen + room.capacity, next + 1));
  }
  return most;
}

// Frames of one call have the same parameters.
FrameNumber Selection::alike_until(FrameNumber next, FrameNumber most) {
  if (self_.stage.plan->parameters.empty()) return most;
  const std::scoped_lock lock(self_.stage.parameter_mutex);
  for (const auto& version : self_.stage.versions) {
    if (version->first_frame > next) return std::min(most, version->first_frame);
  }
  return most;
}

// Where one frame's state is the next one's, a call takes one frame of each stream.
bool Selection::may_join(FrameNumber frame, const std::vector<FrameNumber>& chosen) const {
  if (chosen.empty() || (self_.stage.states_in.empty() && self_.stage.states_out.empty()))
    return true;
  // Of a frame that another replica may take meanwhile, the seat is not known.
  if (self_.replicas > 1 && !self_.stage.has_homes) return false;
  const auto seat = [&](FrameNumber of) { return self_.state.record(of).seat.load(); };
  return std::ranges::none_of(chosen, [&](FrameNumber of) { return seat(of) == seat(frame); });
}

// Where shapes are open, frames of one shape share a call. Of a frame that another replica takes
// meanwhile, the shape may be another's: then take() fails.
bool Selection::is_of_shape(FrameNumber frame) {
  if (self_.stage.shaped_in.empty() || !counts(frame)) return true;
  std::uint64_t shape = 0;
  for (const Edge* edge : self_.stage.shaped_in) {
    const auto on_edge = edge->shape_of(frame);
    if (on_edge == 0) return true;  // It failed before.
    shape = shape * 0x9e3779b97f4a7c15 + on_edge;
  }
  if (shape_ == 0) shape_ = shape;
  return shape == shape_;
}

bool Selection::is_lost(FrameNumber frame) const {
  return !self_.state.record(frame).alive() || !self_.state.ending.spares(frame);
}

std::int64_t Selection::fills_until(std::vector<FrameNumber>& chosen, std::int64_t call_ns) {
  const auto wait = std::chrono::nanoseconds(self_.stage.plan->batch.wait).count();
  if (wait == 0 || self_.leaves_at(chosen_until_) || self_.state.hurries(chosen.front())) return 0;
  const auto waits = std::ranges::find_if_not(chosen, [&](FrameNumber of) { return is_lost(of); });
  if (waits != chosen.begin()) {
    const bool filled = filling_ == chosen.front() + 1 || filling_ == kReplaced;
    if (filled && waits != chosen.end()) {
      filling_ = *waits + 1;  // The next one has waited with it, and goes on.
    } else if (filled && self_.state.record(chosen.front()).dropped()) {
      filling_ = kReplaced;
    }
    chosen.erase(waits, chosen.end());
    return 0;
  }
  const std::int64_t now = now_ns();
  const FrameNumber filling = chosen.front() + 1;
  const FrameNumber before = std::exchange(filling_, filling);
  if (before != filling && before != kReplaced) filling_ns_ = now;
  std::int64_t until = filling_ns_ + wait;
  for (const FrameNumber frame : chosen) {
    const std::int64_t deadline = self_.state.record(frame).deadline_ns;
    if (deadline == kNever) continue;
    // In time to be computed: half of what is left at most, as the first call's time is not known.
    const std::int64_t half = filling_ns_ + ((deadline - filling_ns_) / 2);
    until = std::min({until, half, deadline - (2 * call_ns)});
  }
  return until > now ? until : 0;
}

// Once the pipeline is closed, no more come than were pushed. Where each frame may be the one that
// ends the waiting, it looks at each.
FrameNumber Selection::full_at(FrameNumber next) const {
  const FrameNumber full =
      self_.stage.has_homes || !self_.stage.shaped_in.empty()
          ? chosen_until_ + 1
          : std::min({chosen_until_ + most_ - counted_,
                      next + std::min(self_.stage.most_waiting, self_.stage.most_streams),
                      chosen_until_ + std::min(self_.stage.most_kept - kept_, most_)});
  return self_.state.ending.closed() ? std::min(full, self_.state.source.done()) : full;
}

void Selection::fill(FrameNumber first, std::int64_t until,
                     const std::function<bool()>& interrupted) {
  fills_.exchange(first, std::memory_order_seq_cst);
  // Who let it out before that, woke nobody.
  if (!is_lost(first) && !self_.state.hurries(first)) {
    sleep_until(shortest(), full_at(first), {}, until,
                [&] { return fills_.load(std::memory_order_seq_cst) != first || interrupted(); });
  }
  fills_.exchange(kNoFrame, std::memory_order_seq_cst);
}

void Selection::let_out(FrameNumber first, FrameNumber end) {
  FrameNumber filling = fills_.fetch_add(0, std::memory_order_seq_cst);
  if (filling < first || filling >= end) return;
  if (fills_.compare_exchange_strong(filling, kNoFrame, std::memory_order_seq_cst))
    self_.parker.wake();
}

Wait& Selection::shortest() {
  return *std::ranges::min_element(self_.inputs, {}, &Wait::seen);
}

bool Selection::take(const std::vector<FrameNumber>& chosen) {
  const FrameNumber end = chosen.back() + 1;
  if (self_.stage.has_homes) {
    own_next_ = end;
    return true;
  }
  FrameNumber next = chosen.front();
  if (self_.stage.places.size() > 1) {
    if (!self_.stage.next.compare_exchange_strong(next, end, std::memory_order_acq_rel))
      return false;
    for (const FrameNumber frame : chosen) self_.stage.returns.begin(frame);
    return true;
  }
  self_.stage.next.store(end, std::memory_order_relaxed);
  return true;
}

}  // namespace penstock::pipeline
