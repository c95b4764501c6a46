// Worker: runs calls in lanes, and ends frames.
#include "penstock/pipeline/worker.h"

#include <algorithm>
#include <functional>

#include "penstock/pipeline/guarded.h"
#include "penstock/pipeline/state.h"

// Functions that are `inline` here are on every frame's way, and no other file calls them.
namespace penstock::pipeline {

Worker::Worker(State& state, Stage& stage, std::size_t replica)
    : instance(state, stage, replica), state_(state), stage_(stage) {
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
  ability_.free();
}

void Worker::loop() {
  for (;;) {
    auto next = Next::kFinish;
    if (ability_.may_be_lost()) ability_.look();
    if (lanes_.in_flight() == 0) {
      Lane& lane = lanes_.next();
      if (instance.stands_by() && !ability_.stand_by()) break;
      if (!ability_.able() || ability_.may_be_lost() ? !claim_once_able(lane) : !claim(lane)) break;
      if (!start(lane)) return;
      if (lanes_.size() > 1) next = Next::kLook;
    } else if (lanes_.in_flight() < lanes_.size() && ability_.able()) {
      next = start_or_wait();
    }
    if (next == Next::kLeave) return;
    if (next == Next::kFinish) finish_oldest();
  }
  wake_replicas();
  leave();
}

// Replicas claim a frame only once its inputs are there, so that the idle one takes it.
bool Worker::claim(Lane& lane) {
  for (;;) {
    if (!ability_.able()) ability_.look();
    if (!stage_.returns.empty() && returning_.take(lane)) return true;
    const FrameNumber next = selection_.next_frame();
    if (!instance.has_inputs(next)) {
      if (instance.leaves_at(next)) return false;
      instance.wait_for_input(next);
      continue;
    }
    if (stage_.in_turn && stage_.progress.done() < next) {
      instance.wait_for_turn(next);
      if (state_.ending.stopping()) return false;
      continue;
    }
    // Its inputs came this moment.
    if (stage_.has_homes && selection_.is_of_others(next)) continue;
    if (state_.ending.stopping()) return false;
    if (stage_.returns.enabled() && !instance.has_room(next)) continue;
    if (const auto until = selection_.choose(next, lane.frames, meter); until > 0) {
      instance.idled = true;
      selection_.fill(next, until, [&] {
        return instance.leaves_at(selection_.looked_until()) || instance.was_taken(next) ||
               !stage_.returns.empty();
      });
      continue;
    }
    if (take(lane)) return true;
  }
}

bool Worker::claim_once_able(Lane& lane) {
  for (;;) {
    if (!ability_.leave_to_others() || !claim(lane)) return false;
    if (ability_.look()) return true;
    returning_.hand_back(lane);
    refuse(lane);
  }
}

// A frame wakes one replica. Others that wait for the last one would do so for ever: they look
// again, and leave too.
void Worker::wake_replicas() {
  for (auto& worker : state_.workers) {
    if (&worker->stage_ == &stage_ && worker.get() != this) worker->instance.parker.wake();
  }
}

Worker::Next Worker::start_or_wait() {
  look_for_cancelled();
  const auto due = [&] {
    return lanes_.oldest().call->done() || state_.ending.cancelled() ||
           leaves_.load(std::memory_order_relaxed);
  };
  if (due() || now_ns() >= hang_deadline(lanes_.oldest())) return Next::kFinish;
  const std::int64_t look = std::min(now_ns() + Instance::kLook, hang_deadline(lanes_.oldest()));
  if (!instance.may_claim()) {  // It may be needed again before its call ends.
    instance.parker.prepare();
    if (due() || cancelled_.load(std::memory_order_seq_cst) || instance.may_claim()) {
      instance.parker.abandon();
    } else {
      instance.parker.sleep(look);
    }
    return Next::kLook;
  }
  if (returning_.take(lanes_.next())) return start(lanes_.next()) ? Next::kLook : Next::kLeave;
  const FrameNumber next = stage_.next.load(std::memory_order_acquire);
  const auto [wait, least] = instance.obstacle(next);
  if (wait != nullptr && wait->progress == &state_.sink) state_.loans.want_back(least);
  const auto changed = [&] {
    return due() || cancelled_.load(std::memory_order_seq_cst) ||
           stage_.next.load(std::memory_order_seq_cst) != next || !stage_.returns.empty();
  };
  if (wait != nullptr) {
    sleep_until(*wait, least, {}, look, changed);
    return Next::kLook;
  }
  Lane& lane = lanes_.next();
  if (const auto until = selection_.choose(next, lane.frames, meter); until > 0) {
    selection_.fill(next, std::min(look, until),
                    std::ref(changed));  // A copy would be on the heap.
    return Next::kLook;
  }
  return !take(lane) || start(lane) ? Next::kLook : Next::kLeave;
}

inline bool Worker::take(const Lane& lane) {
  if (!selection_.take(lane.frames)) return false;
  if (instance.replicas > 1 && selection_.left_some()) wake_replicas();
  return true;
}

void Worker::leave() {
  drop_returned();
  const std::scoped_lock lock(state_.left_mutex);
  --state_.running_workers;
  state_.left.notify_all();
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

bool Worker::start(Lane& lane) {
  StageCall& call = *lane.call;
  const bool alone = lanes_.in_flight() == 0;
  lanes_.begin_next();
  lane.bound = 0;
  if (!stage_.lossable_in.empty()) returning_.enter(lane);
  for (const FrameNumber frame : lane.frames) {
    if (lane.again == nullptr) stage_.computed[frame & state_.window_mask] = 0;
    if (!begin(frame, lane.begun)) continue;
    // Not before: where the pipeline ends by a call that hangs, its thread has the call still.
    if (lane.bound == 0) call.clear();
    lane.ready_ns[lane.bound] = instance.ready_since(frame);
    Status bound = call.bind(frame, state_.record(frame), lane.again);
    bound ? void(++lane.bound) : fate_.fail(frame, std::move(bound).error());
  }
  if (lane.bound == 0) return true;
  const std::int64_t ready = lane.ready_ns[lane.bound - 1];
  lane.start_ns = instance.idled || !alone ? now_ns() : std::max(instance.clock_ns, ready);
  instance.idled = false;
  // Two more clock reads tell the phases apart; short stages take them for one frame in 16.
  lane.sampled =
      meter.average_ns() > 20'000 || lane.frames.front() % 16 == 0 || meter.is_first_of(lane.bound);
  if (call.start(lane.start_ns, lane.sampled)) return true;
  state_.hanging.fetch_sub(1, std::memory_order_relaxed);
  call.come_back();
  return false;
}

inline void Worker::finish_oldest() {
  Lane& lane = lanes_.oldest();
  const bool computed = lane.bound > 0;
  if (computed && wait_for(lane)) {
    end(lane);
  } else if (computed) {
    instance.clock_ns = now_ns();
    end_settled(lane);
    give_up(lane, instance.clock_ns - lane.start_ns, true);
  }
  lanes_.end_oldest();
  for (const FrameNumber frame : lane.frames) let_go(lane, frame);
  lane.forget();
  if (computed && lane.sampled) {
    const std::int64_t handed_on = now_ns();
    meter.note_output(handed_on - instance.clock_ns);
    instance.clock_ns = handed_on;
  }
}

// The call has ended.
inline void Worker::end(Lane& lane) {
  instance.clock_ns = now_ns();
  end_frames(lane, lane.call->count(), true);
  if (lane.call->moves()) meter.transfer.record(lane.call->transfer_ns());
  meter.note_call(lane);
}

inline void Worker::end_frames(Lane& lane, std::size_t count, bool timed) {
  for (std::size_t i = 0; i < count; ++i) {
    Status& status = lane.call->status(i);
    if (status && !stage_.states_out.empty())
      status = guarded([&] { return lane.call->take_states(i); });
    const FrameNumber frame = lane.call->frame(i);
    if (lane.again == nullptr) stage_.computed[frame & state_.window_mask] = status ? 1 : 0;
    if (status) {
      if (lane.again != nullptr) continue;
      if (timed) {
        meter.note(lane, i);
      } else {
        Meter::add(meter.frames);
      }
      for (Edge* edge : stage_.shaped_out) edge->note_shape(frame);
    } else if (status.error().code == Code::kUnavailable && returning_.recover(lane, i)) {
      std::erase(lane.frames, frame);
      continue;
    } else if (status.error().code == Code::kUnavailable && fate_.fail_if_ended(frame)) {
      continue;  // No other instance takes it any more: it ends as all that are in flight.
    } else if (status.error().code == Code::kCancelled && fate_.is_late(frame)) {
      fate_.fail_late(frame);  // The engine ended its call in time.
    } else {
      fate_.fail(frame, std::move(status).error());
    }
    if (timed && state_.options.trace && lane.again == nullptr) meter.note_span(lane, i);
  }
}

void Worker::end_settled(Lane& lane) {
  const std::size_t settled = lane.call->settled();
  if (settled == 0) return;
  const FrameNumber hangs = lane.call->frame(settled);
  end_frames(lane, settled, false);  // When each of them ended, nobody knows.
  const auto behind = std::ranges::find(lane.frames, hangs);
  for (auto frame = lane.frames.begin(); frame != behind; ++frame) let_go(lane, *frame);
  lane.frames.erase(lane.frames.begin(), behind);
}

void Worker::end_cancelled_calls() {
  if (!asynchronous_) return;
  cancelled_.store(true, std::memory_order_seq_cst);
  instance.parker.wake();
}

// A call of several frames goes on, for the others.
void Worker::look_for_cancelled() {
  if (!cancelled_.load(std::memory_order_relaxed)) return;
  cancelled_.store(false, std::memory_order_seq_cst);
  for (std::size_t i = 0; i < lanes_.in_flight(); ++i) {
    StageCall& call = *lanes_.at(i).call;
    if (call.in_progress() && call.count() == 1 && state_.record(call.frame(0)).cancelled())
      call.cancel_run();
  }
}

void Worker::doze(const Lane& lane, std::int64_t until_ns) {
  instance.parker.prepare();
  if (lane.call->done() || cancelled_.load(std::memory_order_seq_cst)) {
    instance.parker.abandon();
  } else {
    instance.parker.sleep(until_ns);
  }
}

inline bool Worker::wait_for(Lane& lane) {
  if (!lane.call->in_progress()) return true;
  for (;;) {
    look_for_cancelled();
    const std::int64_t hangs = hang_deadline(lane);
    doze(lane, std::min(hangs, now_ns() + Instance::kLook));
    const std::int64_t until = lane.call->done() ? std::min(hangs, now_ns() + Instance::kLook) : 0;
    if (lane.call->finish(until)) break;
    if (now_ns() >= hangs || leaves_.load(std::memory_order_relaxed)) return false;
  }
  static_cast<void>(
      lane.call->clock().end());  // Nobody else abandons a call that goes on by itself.
  return true;
}

void Worker::refuse(Lane& lane) {
  instance.clock_ns = now_ns();
  for (const FrameNumber frame : lane.frames) {
    if (lane.again == nullptr) stage_.computed[frame & state_.window_mask] = 0;
    if (!lane.begun) begin_read(frame);
    if (fate_.is_due(frame) && !fate_.fail_if_ended(frame) && !fate_.fail_if_expired(frame)) {
      fate_.fail(frame, ability_.unavailable());
    }
    lane.again == nullptr ? finish(frame) : lane.again->remakes.made(frame);
  }
  lane.forget();
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
    return fate_.fail_if_ended(frame) || !fate_.is_due(frame) || fate_.fail_if_expired(frame);
  };
  if (!begun) begin_read(frame);
  if (failed()) return false;
  bool waited = !instance.states.empty() && instance.wait_for_states(frame);
  waited = instance.wait_for_room(frame) || waited;
  if (waited && failed()) return false;  // Much may have become of it meanwhile.
  return begun || stage_.lossy_out.empty() || take_slots(frame);
}

// Of the lossy edges that the stage writes. False: one has none, and the frame is dropped.
inline bool Worker::take_slots(FrameNumber frame) {
  const auto& edges = stage_.lossy_out;
  for (std::size_t e = 0; e < edges.size(); ++e) {
    if (edges[e]->begin_write(frame)) continue;
    edges[e]->drops.fetch_add(1, std::memory_order_relaxed);
    find_no_room(*edges[e], frame);
    while (e-- > 0) edges[e]->abandon_write(frame);
    return false;
  }
  return true;
}

void Worker::find_no_room(Edge& edge, FrameNumber frame) {
  if (edge.policy != plan::FullPolicy::kError) return edge.on_drop(edge, frame);
  Status told = guarded([&]() -> Status { return edge.was_full(Code::kResourceExhausted); });
  fate_.fail(frame, std::move(told).error());
}

inline void Worker::let_go(Lane& lane, FrameNumber frame) {
  if (!stage_.lossable_in.empty()) returning_.leave_inputs(frame);
  if (lane.again == nullptr) return finish(frame, frame == lane.frames.back());
  lane.call->forget_beside();
  lane.again->remakes.made(frame);
}

void Worker::finish(FrameNumber frame, bool last) {
  const bool alive = state_.record(frame).alive();
  for (Edge* edge : stage_.kept_for) edge->end_read(frame);
  for (Edge* edge : stage_.kept_out) edge->begin_readers(frame);
  for (Edge* edge : stage_.lossy_out) {
    if (!alive) {
      edge->abandon_write(frame);
    } else if (!edge->end_write(frame)) {
      find_no_room(*edge, frame);
    }
  }
  hand_on_states(frame);
  pass_on(frame, last);
}

inline void Worker::pass_on(FrameNumber frame, bool last) {
  stage_.ready_ns[frame & state_.window_mask] = instance.clock_ns;
  auto& record = state_.record(frame);
  const bool calls_back = record.calls_back();
  stage_.progress.complete(frame);
  // Another frame may have the record now, but not where a callback waits for this stage.
  if (calls_back && record.leave_stage()) {
    const bool idle =
        last && lanes_.in_flight() == 0 && !instance.has_inputs(selection_.next_frame());
    state_.delivery.ready(frame, idle);
    if (idle) instance.idled = true;  // A callback's time is not the next frame's.
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
  give_up_lost(ran_ns, ready);
  loop();
}

// The frames of the call that hangs go on without it.
void Worker::give_up_lost(std::int64_t ran_ns, bool ready) {
  instance.clock_ns = now_ns();
  Lane& lane = lanes_.front();  // Of a call on the worker's own thread, the only one.
  end_settled(lane);
  const bool reopened =
      give_up(lane, ran_ns, ready && lane.call->apart() && !state_.ending.cancelled());
  lanes_.end_all();
  for (const FrameNumber frame : lane.frames) {
    if (reopened) {
      let_go(lane, frame);
      continue;
    }
    returning_.leave_inputs(frame);
    if (lane.again != nullptr) {
      lane.again->remakes.made(frame);
      continue;
    }
    // What the call may still read stays as it is: nothing of this frame is released.
    hand_on_states(frame);
    pass_on(frame);
  }
  lane.forget();
  instance.idled = true;
}

}  // namespace penstock::pipeline
