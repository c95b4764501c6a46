// Worker: runs calls in lanes, and ends frames.
#include "penstock/pipeline/worker.h"

#include <algorithm>
#include <functional>

#include "penstock/device/device.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/pipeline/state.h"

// Functions that are `inline` here are on every frame's way, and no other file calls them.
namespace penstock::pipeline {

Worker::Worker(State& state, Stage& stage, std::size_t replica)
    : state_(state), stage_(stage), replica_(replica), replicas_(stage.plan->devices.size()) {
  if (stage.plan->max_run) max_run_ns_ = std::chrono::nanoseconds(*stage.plan->max_run).count();
}

Worker::~Worker() {
  join();
}

void Worker::join() {
  if (thread_.joinable()) thread_.join();
}

void Worker::free() {
  const std::scoped_lock lock(calls_mutex_);
  lanes_.clear();
  executables_.clear();
}

void Worker::loop() {
  for (;;) {
    auto next = Next::kFinish;
    if (may_be_lost_) look_whether_unable();
    if (in_flight_ == 0) {
      Lane& lane = next_lane();
      if (stands_by() && !stand_by()) break;
      if (unable_ || may_be_lost_ ? !claim_once_able(lane) : !claim(lane)) break;
      if (!start(lane)) return;
      if (lanes_.size() > 1) next = Next::kLook;
    } else if (in_flight_ < lanes_.size() && !unable_) {
      next = start_or_wait();
    }
    if (next == Next::kLeave) return;
    if (next == Next::kFinish) finish_oldest();
  }
  wake_replicas();
  leave();
}

// A frame wakes one replica. Others that wait for the last one would do so for ever: they look
// again, and leave too.
void Worker::wake_replicas() {
  for (auto& worker : state_.workers) {
    if (&worker->stage_ == &stage_ && worker.get() != this) worker->parker.wake();
  }
}

Worker::Next Worker::start_or_wait() {
  look_for_cancelled();
  const auto due = [&] {
    return oldest().call->done() || state_.ending.cancelled() ||
           leaves_.load(std::memory_order_relaxed);
  };
  if (due() || now_ns() >= hang_deadline(oldest())) return Next::kFinish;
  const std::int64_t look = std::min(now_ns() + kLook, hang_deadline(oldest()));
  if (!may_claim()) {  // It may be needed again before its call ends.
    parker.prepare();
    if (due() || cancelled_.load(std::memory_order_seq_cst) || may_claim()) {
      parker.abandon();
    } else {
      parker.sleep(look);
    }
    return Next::kLook;
  }
  if (take_returned(next_lane())) return start(next_lane()) ? Next::kLook : Next::kLeave;
  const FrameNumber next = stage_.next.load(std::memory_order_acquire);
  const auto [wait, least] = obstacle(next);
  if (wait != nullptr && wait->progress == &state_.sink) state_.loans.want_back(least);
  const auto changed = [&] {
    return due() || cancelled_.load(std::memory_order_seq_cst) ||
           stage_.next.load(std::memory_order_seq_cst) != next || !stage_.returns.empty();
  };
  if (wait != nullptr) {
    sleep_until(*wait, least, {}, look, changed);
    return Next::kLook;
  }
  Lane& lane = next_lane();
  const bool more = choose(next, lane.frames);
  if (const auto until = more ? fills_until(lane.frames) : 0; until > 0) {
    fill(next, std::min(look, until), std::ref(changed));  // A copy would be on the heap.
    return Next::kLook;
  }
  return !take(lane.frames) || start(lane) ? Next::kLook : Next::kLeave;
}

// No division: this is on every frame's way.
inline Worker::Lane& Worker::next_lane() {
  const std::size_t at = first_ + in_flight_;
  return lanes_[at < lanes_.size() ? at : at - lanes_.size()];
}

std::pair<Wait*, FrameNumber> Worker::obstacle(FrameNumber frame) {
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

void Worker::leave() {
  drop_returned();
  const std::scoped_lock lock(state_.left_mutex);
  --state_.running_workers;
  state_.left.notify_all();
}

bool Worker::leave_at(FrameNumber frame) const {
  if (state_.ending.stopping()) return true;
  if (!state_.ending.closed() || frame < state_.source.done()) return false;
  if (!stage_.returns.enabled()) return true;
  // What another instance has may come back, and what was passed on may be lost.
  const FrameNumber pushed = state_.source.done();
  return stage_.progress.done() >= pushed &&
         std::ranges::all_of(stage_.askers,
                             [&](const Stage* asker) { return asker->progress.done() >= pushed; });
}

inline bool Worker::wait_for_room(FrameNumber frame) {
  bool waited = false;
  const auto interrupted = [&] { return state_.ending.cancelled(); };
  for (auto& room : rooms) {
    if (frame < room.capacity) continue;
    const FrameNumber least = frame - room.capacity + 1;
    while (room.wait.seen < least) {
      room.wait.seen = room.wait.progress->done();
      if (room.wait.seen >= least || interrupted()) break;
      waited = true;
      sleep_for_room(room.wait, least, interrupted);
    }
  }
  return waited;
}

void Worker::sleep_for_room(Wait& wait, FrameNumber least,
                            const std::function<bool()>& interrupted) {
  idled_ = true;
  const bool of_caller = wait.progress == &state_.sink;
  if (of_caller) state_.loans.want_back(least);
  if (of_caller) ++state_.awaiting_release;
  sleep_until(wait, least, {state_.wake_batch}, kNever, interrupted);
  if (of_caller) --state_.awaiting_release;
}

inline std::int64_t Worker::ready_since(FrameNumber frame) const {
  std::int64_t ready = 0;
  for (const auto* times : stage_.producer_ready_ns) {
    ready = std::max(ready, (*times)[frame & state_.window_mask]);
  }
  return ready;
}

// A reader of its own state has it already: it sees the frames in order.
bool Worker::wait_for_states(FrameNumber frame) {
  bool waited = false;
  const auto interrupted = [&] { return state_.ending.cancelled(); };
  const FrameNumber least = state_.record(frame).behind;
  for (auto& wait : states) {
    while (wait.seen < least) {
      wait.seen = wait.progress->done();
      if (wait.seen >= least || interrupted()) break;
      idled_ = waited = true;
      sleep_until(wait, least, {}, kNever, interrupted);
    }
  }
  return waited;
}

bool Worker::start(Lane& lane) {
  StageCall& call = *lane.call;
  const bool alone = in_flight_++ == 0;
  lane.bound = 0;
  if (!stage_.lossable_in.empty()) enter(lane);
  for (const FrameNumber frame : lane.frames) {
    if (lane.again == nullptr) stage_.computed[frame & state_.window_mask] = 0;
    if (!begin(frame, lane.begun)) continue;
    // Not before: where the pipeline ends by a call that hangs, its thread has the call still.
    if (lane.bound == 0) call.clear();
    lane.ready_ns[lane.bound] = ready_since(frame);
    Status bound = call.bind(frame, state_.record(frame), lane.again);
    bound ? void(++lane.bound) : fail(frame, std::move(bound).error());
  }
  if (lane.bound == 0) return true;
  const std::int64_t ready = lane.ready_ns[lane.bound - 1];
  lane.start_ns = idled_ || !alone ? now_ns() : std::max(clock_, ready);
  idled_ = false;
  // Two more clock reads tell the phases apart; short stages take them for one frame in 16.
  lane.sampled = average_ns_ > 20'000 || lane.frames.front() % 16 == 0;
  call.clock().begin(lane.start_ns);
  if (call.start(lane.sampled)) return true;
  state_.hanging.fetch_sub(1, std::memory_order_relaxed);
  call.come_back();
  return false;
}

inline void Worker::finish_oldest() {
  Lane& lane = oldest();
  const bool computed = lane.bound > 0;
  if (computed && wait_for(lane)) {
    end(lane);
  } else if (computed) {
    clock_ = now_ns();
    give_up(lane, clock_ - lane.start_ns, true);
  }
  first_ = first_ + 1 == lanes_.size() ? 0 : first_ + 1;
  --in_flight_;
  for (const FrameNumber frame : lane.frames) let_go(lane, frame);
  lane.begun = false;
  lane.again = nullptr;
  if (computed && lane.sampled) {
    const std::int64_t handed_on = now_ns();
    compute_output.record(handed_on - clock_);
    clock_ = handed_on;
  }
}

// The call has ended.
inline void Worker::end(Lane& lane) {
  clock_ = now_ns();
  for (std::size_t i = 0; i < lane.call->count(); ++i) {
    Status& status = lane.call->status(i);
    if (status && !stage_.states_out.empty())
      status = guarded([&] { return lane.call->take_states(i); });
    const FrameNumber frame = lane.call->frame(i);
    if (lane.again == nullptr) stage_.computed[frame & state_.window_mask] = status ? 1 : 0;
    if (status) {
      if (lane.again == nullptr) note(lane, i);
    } else if (status.error().code == Code::kUnavailable && recover(lane, i)) {
      std::erase(lane.frames, frame);
    } else if (status.error().code == Code::kUnavailable && fail_if_ended(frame)) {
      continue;  // No other instance takes it any more: it ends as all that are in flight.
    } else if (status.error().code == Code::kCancelled && is_late(frame)) {
      fail_late(frame);  // The engine ended its call in time.
    } else {
      fail(frame, std::move(status).error());
    }
  }
  if (lane.call->moves()) transfer.record(lane.call->transfer_ns());
  note_call(lane);
}

void Worker::end_cancelled_calls() {
  if (!asynchronous_) return;
  cancelled_.store(true, std::memory_order_seq_cst);
  parker.wake();
}

// A call of several frames goes on, for the others.
void Worker::look_for_cancelled() {
  if (!cancelled_.load(std::memory_order_relaxed)) return;
  cancelled_.store(false, std::memory_order_seq_cst);
  for (std::size_t i = 0; i < in_flight_; ++i) {
    StageCall& call = *lanes_[(first_ + i) % lanes_.size()].call;
    if (call.in_progress() && call.count() == 1 && state_.record(call.frame(0)).cancelled())
      call.cancel_run();
  }
}

void Worker::doze(const Lane& lane, std::int64_t until_ns) {
  parker.prepare();
  if (lane.call->done() || cancelled_.load(std::memory_order_seq_cst)) {
    parker.abandon();
  } else {
    parker.sleep(until_ns);
  }
}

inline bool Worker::wait_for(Lane& lane) {
  if (!lane.call->in_progress()) return true;
  for (;;) {
    look_for_cancelled();
    const std::int64_t hangs = hang_deadline(lane);
    doze(lane, std::min(hangs, now_ns() + kLook));
    const std::int64_t until = lane.call->done() ? std::min(hangs, now_ns() + kLook) : 0;
    if (lane.call->finish(until)) break;
    if (now_ns() >= hangs || leaves_.load(std::memory_order_relaxed)) return false;
  }
  static_cast<void>(
      lane.call->clock().end());  // Nobody else abandons a call that goes on by itself.
  return true;
}

void Worker::refuse(Lane& lane) {
  clock_ = now_ns();
  for (const FrameNumber frame : lane.frames) {
    if (lane.again == nullptr) stage_.computed[frame & state_.window_mask] = 0;
    if (!lane.begun) begin_read(frame);
    if (is_due(frame) && !fail_if_ended(frame) && !fail_if_expired(frame)) {
      fail(frame, unavailable());
    }
    lane.again == nullptr ? finish(frame) : lane.again->remakes.made(frame);
  }
  lane.begun = false;
  lane.again = nullptr;
  // A frame wakes one replica, and that may be always this one: others look whether theirs is back.
  stage_.returns.wake();
}

std::int64_t Worker::hang_deadline(const Lane& lane) const {
  return max_run_ns_ > 0 ? lane.call->clock().read().since_ns + max_run_ns_ : kNever;
}

void Worker::begin_read(FrameNumber frame) {
  for (Edge* edge : stage_.lossy_in) edge->begin_read(frame);
}

inline bool Worker::begin(FrameNumber frame, bool begun) {
  const auto failed = [&] {
    return fail_if_ended(frame) || !is_due(frame) || fail_if_expired(frame);
  };
  if (!begun) begin_read(frame);
  if (failed()) return false;
  bool waited = !states.empty() && wait_for_states(frame);
  waited = wait_for_room(frame) || waited;
  if (waited && failed()) return false;  // Much may have become of it meanwhile.
  return begun || stage_.lossy_out.empty() || take_slots(frame);
}

// Of the lossy edges that the stage writes. False: one has none, and the frame is dropped.
inline bool Worker::take_slots(FrameNumber frame) {
  const auto& edges = stage_.lossy_out;
  for (std::size_t e = 0; e < edges.size(); ++e) {
    if (edges[e]->begin_write(frame)) continue;
    edges[e]->on_drop(*edges[e], frame);
    edges[e]->drops.fetch_add(1, std::memory_order_relaxed);
    while (e-- > 0) edges[e]->abandon_write(frame);
    return false;
  }
  return true;
}

inline bool Worker::is_due(FrameNumber frame) const {
  if (!stage_.feeds_state) return state_.record(frame).alive();
  return std::ranges::all_of(stage_.stages_before, [&](const Stage* before) {
    return before->computed[frame & state_.window_mask] != 0;
  });
}

inline bool Worker::fail_if_ended(FrameNumber frame) {
  return !state_.ending.spares(frame) && fail_ended(frame);
}

bool Worker::fail_ended(FrameNumber frame) {
  // A call may hang once the pipeline is cancelled: the frames behind it are cancelled then.
  if (state_.ending.fails(frame) && !state_.ending.cancelled()) {
    state_.record(frame).fail(Outcome::kError, [&] {
      return make_error(Code::kDeadlineExceeded,
                        "behind a call that hangs: ", state_.ending.error().message())
          .within({Where::kFrame, frame});
    });
    return true;
  }
  if (state_.ending.given_up(frame)) {
    state_.record(frame).fail(Outcome::kCancelled, [&] {
      return make_error(Code::kCancelled, "given up").within({Where::kFrame, frame});
    });
    return true;
  }
  if (!state_.ending.cancelled()) return false;
  state_.record(frame).fail(Outcome::kCancelled, [&] { return state_.ending.error(); });
  return true;
}

inline bool Worker::fail_if_expired(FrameNumber frame) {
  if (!is_late(frame)) return false;
  fail_late(frame);
  return true;
}

void Worker::fail_late(FrameNumber frame) {
  fail(frame, lateness(frame));
}

inline bool Worker::is_late(FrameNumber frame) const {
  const std::int64_t deadline = state_.record(frame).deadline_ns;
  return deadline != kNever && now_ns() > deadline;
}

Error Worker::lateness(FrameNumber frame) const {
  const auto& record = state_.record(frame);
  const auto us = [&](std::int64_t time_ns) {
    return std::max<std::int64_t>(time_ns - record.pushed_ns, 0) / 1000;
  };
  Status late = guarded([&]() -> Status {
    return make_error(Code::kDeadlineExceeded, "deadline_exceeded: ", us(now_ns()),
                      " us since its push, at most ", us(record.deadline_ns), " us allowed");
  });
  return std::move(late).error();
}

inline void Worker::note(const Lane& lane, std::size_t i) {
  frames.store(frames.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  queue.record(lane.start_ns - lane.ready_ns[i]);
  const std::int64_t began = lane.call->began_ns();
  const std::int64_t before = lane.call->transfer_before_ns();
  compute_infer.record(clock_ - (began != 0 ? began : lane.start_ns) -
                       (lane.call->transfer_ns() - before));
  if (began != 0) compute_input.record(began - lane.start_ns - before);
  if (state_.options.trace) {
    const std::scoped_lock lock(span_mutex_);
    spans_[span_count_++ % spans_.size()] = {lane.call->frame(i), lane.ready_ns[i], lane.start_ns,
                                             clock_, lane.call->far_times()};
  }
}

inline void Worker::note_call(const Lane& lane) {
  average_ns_ += (clock_ - lane.start_ns - average_ns_) / 8;
  // Of arrivals, not of service: a fast stage behind a slow one brings frames at the slow one's
  // pace. A pause counts as what nobody waits longer than, so that it is soon forgotten.
  const std::int64_t interval = std::min(clock_ - last_end_, 2 * Batch::kCallerPatience);
  last_end_ = clock_;
  const std::size_t count = lane.call->count();
  const bool alone = count > 1 && lane.call->rows() == 1;
  auto& counter = calls[alone ? 0 : count - 1];
  counter.store(counter.load(std::memory_order_relaxed) + (alone ? count : 1),
                std::memory_order_relaxed);
  if (lane.call->rows() > count) {
    surplus.store(surplus.load(std::memory_order_relaxed) + lane.call->rows() - count,
                  std::memory_order_relaxed);
  }
  const auto frames_of_call = static_cast<std::int64_t>(count);
  const std::int64_t of_frame = frames_of_call == 1 ? interval : interval / frames_of_call;
  interval_ns_ += (of_frame - interval_ns_) / 8;
  const auto replicas = static_cast<std::int64_t>(replicas_);
  stage_.period_ns.store(replicas == 1 ? interval_ns_ : interval_ns_ / replicas,
                         std::memory_order_relaxed);
}

WorkerSpans Worker::spans() const {
  const std::scoped_lock lock(span_mutex_);
  const auto kept = std::min<std::uint64_t>(span_count_, spans_.size());
  return {.stage = stage_.plan->name,
          .replica = replica_,
          .device = device::to_string(stage_.places[replica_]),
          .kept = {spans_.begin(), spans_.begin() + static_cast<std::ptrdiff_t>(kept)},
          .lost = span_count_ - kept};
}

void Worker::fail(FrameNumber frame, Error error) {
  if (state_.record(frame).cancelled()) return;  // Nobody asks what else befell it.
  const bool dropped = stage_.may_drop && error.code == Code::kAborted;
  auto& counter = dropped ? drops : errors;
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const bool cancelled = state_.ending.cancelled() && error.code == Code::kCancelled;
  const bool stops = !dropped && !cancelled && state_.plan.on_error == plan::OnError::kStop;
  Error cause;
  const auto placed = [&] {
    Error made =
        std::move(error).within({Where::kFrame, frame}).within({Where::kStage, stage_.plan->name});
    if (stops) cause = state_.record(frame).in_stream(made);
    return made;
  };
  const auto outcome = dropped     ? Outcome::kDropped
                       : cancelled ? Outcome::kCancelled
                                   : Outcome::kError;
  const bool first = state_.record(frame).fail(outcome, placed);
  state_.let_out(frame, frame + 1);
  // What a frame does not tell, since it was dropped before, stops nothing.
  if (first && stops) state_.cancel(cause.reason.empty() ? out_of_memory() : std::move(cause));
}

inline void Worker::let_go(Lane& lane, FrameNumber frame) {
  if (!stage_.lossable_in.empty()) leave_inputs(frame);
  if (lane.again == nullptr) return finish(frame, frame == lane.frames.back());
  lane.call->forget_beside();
  lane.again->remakes.made(frame);
}

void Worker::finish(FrameNumber frame, bool last) {
  const bool alive = state_.record(frame).alive();
  for (Edge* edge : stage_.kept_for) edge->end_read(frame);
  for (Edge* edge : stage_.kept_out) edge->begin_readers(frame);
  for (Edge* edge : stage_.lossy_out) alive ? edge->end_write(frame) : edge->abandon_write(frame);
  hand_on_states(frame);
  pass_on(frame, last);
}

inline void Worker::pass_on(FrameNumber frame, bool last) {
  stage_.ready_ns[frame & state_.window_mask] = clock_;
  auto& record = state_.record(frame);
  const bool calls_back = record.calls_back();
  stage_.progress.complete(frame);
  // Another frame may have the record now, but not where a callback waits for this stage.
  if (calls_back && record.leave_stage()) {
    const bool idle = last && in_flight_ == 0 && !has_inputs(next_frame());
    state_.delivery.ready(frame, idle);
    if (idle) idled_ = true;  // A callback's time is not the next frame's.
  }
  // Other instances wait for its turn, or stay in case that it comes back.
  if (!stage_.returns.enabled() && stage_.makers.empty()) return;
  const bool ended = state_.ending.closed() && stage_.progress.done() >= state_.source.done();
  if (ended || stage_.await_turn.load(std::memory_order_seq_cst) > 0) stage_.returns.wake();
  for (Stage* maker : stage_.makers) {
    if (ended) maker->returns.wake();
  }
}

// To the next frame of the stream.
void Worker::hand_on_states(FrameNumber frame) {
  if (stage_.states_out.empty()) return;
  const Record& record = state_.record(frame);
  const bool computed = stage_.computed[frame & state_.window_mask] != 0;
  for (StateEdge* state : stage_.states_out) {
    if (computed) {
      state->advance(record.seat, record.step);
    } else {
      state->keep(record.seat, record.step);
    }
  }
}

void Worker::cancel_runs() {
  const std::scoped_lock lock(calls_mutex_);
  for (auto& lane : lanes_) {
    if (lane.call) lane.call->cancel();
  }
}

Counters Worker::counters() const {
  const std::scoped_lock lock(calls_mutex_);
  Counters sum = lost_counters_;
  for (const auto& lane : lanes_) add(sum, lane.call->counters());
  return sum;
}

// `ready`: whether the thread can compute.
void Worker::take_over(std::int64_t ran_ns, bool ready) {
  clock_ = now_ns();
  Lane& lane = lanes_.front();  // Of a call on the worker's own thread, the only one.
  const bool reopened =
      give_up(lane, ran_ns, ready && lane.call->apart() && !state_.ending.cancelled());
  in_flight_ = 0;
  for (const FrameNumber frame : lane.frames) {
    if (reopened) {
      let_go(lane, frame);
      continue;
    }
    leave_inputs(frame);
    if (lane.again != nullptr) {
      lane.again->remakes.made(frame);
      continue;
    }
    // What the call may still read stays as it is: nothing of this frame is released.
    hand_on_states(frame);
    pass_on(frame);
  }
  lane.begun = false;
  lane.again = nullptr;
  idled_ = true;
  loop();
}

}  // namespace penstock::pipeline
