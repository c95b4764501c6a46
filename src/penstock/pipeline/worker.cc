#include "penstock/pipeline/worker.h"

#include <algorithm>
#include <optional>

#include "penstock/device/affinity.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/pipeline/ports.h"
#include "penstock/pipeline/state.h"
#include "penstock/pipeline/thread.h"

namespace penstock::pipeline {
namespace {

std::string text_of(const std::vector<int>& cpus) {
  return "cpu:" + join(cpus, "+", [](int cpu) { return std::to_string(cpu); });
}

double ms(std::int64_t ns) {
  return static_cast<double>(ns / 1000) / 1000;
}

}  // namespace

Worker::Worker(State& state, Stage& stage, std::size_t replica)
    : state_(state),
      stage_(stage),
      replica_(replica),
      call_(std::make_unique<StageCall>(stage, state.ending)) {
  const auto max_run = state.options.max_run ? state.options.max_run : stage.plan->max_run;
  if (max_run) max_run_ns_ = std::chrono::nanoseconds(*max_run).count();
}

Worker::~Worker() {
  join();
}

void Worker::join() {
  if (thread_.joinable()) thread_.join();
}

Status Worker::start(const std::vector<backend::CompileRequest>& requests,
                     const std::vector<int>& mask, Executables& executables) {
  std::promise<Status> started;
  auto outcome = started.get_future();
  // The thread keeps what it reads: it may come back from a call that everybody else gave up.
  PENSTOCK_CHECK_OK(
      start_thread(thread_, [this, keep = state_.shared_from_this(), &requests, &mask, &executables,
                             &started] { main(requests, mask, executables, started); }));
  Status ready = outcome.get();
  const std::scoped_lock lock(state_.left_mutex);
  state_.running_workers += ready ? 1 : 0;
  return ready;
}

void Worker::main(const std::vector<backend::CompileRequest>& requests,
                  const std::vector<int>& mask, Executables& executables,
                  std::promise<Status>& started) {
  Status ready = guarded([&] { return prepare(requests, mask, executables); });
  const bool go = static_cast<bool>(ready);
  started.set_value(std::move(ready));
  if (go) loop();
}

Status Worker::prepare(const std::vector<backend::CompileRequest>& requests,
                       const std::vector<int>& mask, Executables& executables) {
  device::name_this_thread(thread_name());
  PENSTOCK_CHECK_OK(device::pin_this_thread(mask));
  const bool flush = stage_.plan->flush_denormals;
  device::set_flush_denormals(flush);
  PENSTOCK_CHECK_OK(compile(requests, executables));
  call_->warm_up();
  device::set_flush_denormals(flush);
  std::size_t threads = 0;
  for (std::size_t p = 0; p < requests.size(); ++p) {
    threads += static_cast<std::size_t>(requests[p].threads - 1 + executables[p]->idle_threads());
  }
  PENSTOCK_CHECK_OK(check_threads(mask, threads));
  if (state_.options.trace) spans_.resize(kSpansKept);
  return {};
}

Status Worker::compile(const std::vector<backend::CompileRequest>& requests,
                       Executables& executables) {
  executables.resize(requests.size());
  for (std::size_t p = 0; p < requests.size(); ++p) {
    auto& partition = stage_.partitions[p];
    if (!executables[p]) {
      PENSTOCK_TRY(std::shared_ptr<backend::Executable> made,
                   partition.backend->compile(requests[p]));
      executables[p] = std::move(made);
    }
    if (replica_ > 0) continue;
    PENSTOCK_CHECK_OK(join_ports(state_.plan, stage_, partition, *executables[p]));
  }
  return call_->open(executables);
}

std::string Worker::thread_name() const {
  constexpr std::size_t kKept = 15;  // The kernel cuts longer names.
  return concat("ps", device::this_thread_id(), ".", stage_.index).substr(0, kKept);
}

Status Worker::check_threads(const std::vector<int>& mask, std::size_t expected) const {
  const auto own = device::cpus_of_thread(device::this_thread_id());
  if (own != mask) {
    return internal_error("backend '", stage_.plan->partitions.front().backend,
                          "' moved the stage's thread to ", text_of(own), ", expected ",
                          text_of(mask));
  }
  auto workers = device::threads_after(device::this_thread_id());
  std::erase_if(workers,
                [&, name = thread_name()](int tid) { return device::name_of_thread(tid) != name; });
  for (const int tid : workers) {
    const auto cpus = device::cpus_of_thread(tid);
    if (!std::ranges::includes(mask, cpus)) {
      return internal_error("backend '", stage_.plan->partitions.front().backend,
                            "' runs a thread on ", text_of(cpus), ", outside the stage's ",
                            text_of(mask));
    }
  }
  if (workers.size() > expected) {
    return internal_error("backend '", stage_.plan->partitions.front().backend, "' made ",
                          workers.size(), " threads, expected at most ", expected);
  }
  return {};
}

void Worker::loop() {
  FrameNumber frame = 0;
  while (claim(&frame)) {
    if (!process(frame)) return;
  }
  leave();
}

void Worker::leave() {
  const std::scoped_lock lock(state_.left_mutex);
  --state_.running_workers;
  state_.left.notify_all();
}

bool Worker::leave_at(FrameNumber frame) const {
  if (state_.ending.stopping()) return true;
  return state_.ending.closed() && frame >= state_.source.done();
}

// Replicas claim a frame only once its inputs are there, so that the idle one takes it.
bool Worker::claim(FrameNumber* frame) {
  for (;;) {
    FrameNumber next = stage_.next.load(std::memory_order_acquire);
    bool ready = true;
    for (auto& wait : inputs) {
      if (wait.seen <= next) wait.seen = wait.progress->done();
      ready = ready && wait.seen > next;
    }
    if (!ready) {
      if (leave_at(next)) return false;
      wait_for_input(next);
      continue;
    }
    if (state_.ending.stopping()) return false;
    if (stage_.plan->devices.size() == 1) {
      stage_.next.store(next + 1, std::memory_order_relaxed);
    } else if (!stage_.next.compare_exchange_strong(next, next + 1, std::memory_order_acq_rel)) {
      continue;
    }
    *frame = next;
    return true;
  }
}

void Worker::wait_for_input(FrameNumber frame) {
  idled_ = true;
  const auto late =
      std::ranges::find_if(inputs, [&](const Wait& wait) { return wait.seen <= frame; });
  Batch batch;
  if (stage_.plan->devices.size() == 1) {
    const FrameNumber pushed = state_.source.done();
    const FrameNumber upstream = pushed > frame ? pushed - frame : 0;
    batch.frames = std::clamp<FrameNumber>(upstream / 2, 1, state_.wake_batch);
  }
  sleep_until(*late, frame + 1, batch, kNever, [&] {
    return leave_at(frame) || stage_.next.load(std::memory_order_seq_cst) != frame;
  });
}

void Worker::wait_for_room(FrameNumber frame) {
  const auto interrupted = [&] { return state_.ending.cancelled(); };
  for (auto& room : rooms) {
    if (frame < room.capacity) continue;
    const FrameNumber least = frame - room.capacity + 1;
    while (room.wait.seen < least) {
      room.wait.seen = room.wait.progress->done();
      if (room.wait.seen >= least || interrupted()) break;
      idled_ = true;
      const bool of_caller = room.wait.progress == &state_.sink;
      if (of_caller) ++state_.awaiting_release;
      sleep_until(room.wait, least, {state_.wake_batch}, kNever, interrupted);
      if (of_caller) --state_.awaiting_release;
    }
  }
}

std::int64_t Worker::ready_since(FrameNumber frame) const {
  std::int64_t ready = 0;
  for (const auto* times : stage_.producer_ready_ns) {
    ready = std::max(ready, (*times)[frame & state_.window_mask]);
  }
  return ready;
}

// A reader of its own state has it already: it sees the frames in order.
void Worker::wait_for_states(FrameNumber frame) {
  const auto interrupted = [&] { return state_.ending.cancelled(); };
  for (auto& wait : states) {
    while (wait.seen < frame) {
      wait.seen = wait.progress->done();
      if (wait.seen >= frame || interrupted()) break;
      idled_ = true;
      sleep_until(wait, frame, {}, kNever, interrupted);
    }
  }
}

bool Worker::process(FrameNumber frame) {
  const std::int64_t ready = ready_since(frame);
  if (!begin(frame)) {
    stage_.computed[frame & state_.window_mask] = 0;
    finish(frame);
    return true;
  }
  const std::int64_t start = idled_ ? now_ns() : std::max(clock_, ready);
  idled_ = false;
  // Two more clock reads tell the phases apart; short stages take them for one frame in 16.
  const bool sample = average_ns_ > 20'000 || frame % 16 == 0;
  running_frame_.store(frame, std::memory_order_relaxed);
  call_->clock().begin(start);
  Status status = call_->run(frame, sample);
  if (!call_->clock().end()) return false;
  clock_ = now_ns();
  if (status && !stage_.states_out.empty())
    status = guarded([&] { return call_->advance_states(); });
  stage_.computed[frame & state_.window_mask] = status ? 1 : 0;
  if (status) {
    note(frame, ready, start, clock_);
  } else {
    fail(frame, std::move(status).error());
  }
  finish(frame);
  if (sample) {
    const std::int64_t handed_on = now_ns();
    compute_output.record(handed_on - clock_);
    clock_ = handed_on;
  }
  return true;
}

bool Worker::begin(FrameNumber frame) {
  for (Edge* edge : stage_.in_edges) {
    if (edge->lossy()) edge->begin_read(frame);
  }
  if (!is_due(frame) || fail_if_expired(frame)) return false;
  if (!states.empty()) wait_for_states(frame);
  wait_for_room(frame);
  if (fail_if_ended(frame)) return false;
  if (fail_if_expired(frame)) return false;  // It may have grown old while it waited.
  if (!take_slots(frame)) return false;
  call_->bind(frame);
  return true;
}

// Of the lossy edges that the stage writes. False: one has none, and the frame is dropped.
bool Worker::take_slots(FrameNumber frame) {
  const auto& edges = stage_.out_edges;
  for (std::size_t e = 0; e < edges.size(); ++e) {
    if (!edges[e]->lossy() || edges[e]->begin_write(frame)) continue;
    edges[e]->on_drop(*edges[e], frame);
    edges[e]->drops.fetch_add(1, std::memory_order_relaxed);
    while (e-- > 0) {
      if (edges[e]->lossy()) edges[e]->abandon_write(frame);
    }
    return false;
  }
  return true;
}

bool Worker::is_due(FrameNumber frame) const {
  if (!stage_.feeds_state) return state_.record(frame).alive();
  return std::ranges::all_of(stage_.stages_before, [&](const Stage* before) {
    return before->computed[frame & state_.window_mask] != 0;
  });
}

bool Worker::fail_if_ended(FrameNumber frame) {
  if (state_.ending.fails(frame)) {
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

bool Worker::fail_if_expired(FrameNumber frame) {
  if (!state_.options.max_age) return false;
  const auto age = std::chrono::nanoseconds(now_ns() - state_.record(frame).pushed_ns);
  if (age <= *state_.options.max_age) return false;
  const auto us = [](auto d) {
    return std::chrono::duration_cast<std::chrono::microseconds>(d).count();
  };
  Status late = guarded([&]() -> Status {
    return make_error(Code::kDeadlineExceeded, "deadline_exceeded: ", us(age),
                      " us since its push, at most ", us(*state_.options.max_age), " us allowed");
  });
  fail(frame, std::move(late).error());
  return true;
}

void Worker::note(FrameNumber frame, std::int64_t ready, std::int64_t start, std::int64_t end) {
  frames.store(frames.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  queue.record(start - ready);
  const std::int64_t began = call_->began_ns();
  compute_infer.record(end - (began != 0 ? began : start));
  if (began != 0) {
    compute_input.record(began - start);
  }
  average_ns_ += (end - start - average_ns_) / 8;
  // Of arrivals, not of service: a fast stage behind a slow one brings frames at the slow one's
  // pace. A pause counts as what nobody waits longer than, so that it is soon forgotten.
  const std::int64_t interval = std::min(end - last_end_, 2 * Batch::kCallerPatience);
  last_end_ = end;
  interval_ns_ += (interval - interval_ns_) / 8;
  stage_.period_ns.store(interval_ns_ / static_cast<std::int64_t>(stage_.plan->devices.size()),
                         std::memory_order_relaxed);
  if (state_.options.trace) {
    const std::scoped_lock lock(span_mutex_);
    spans_[span_count_++ % spans_.size()] = {frame, ready, start, end};
  }
}

Spans Worker::spans() const {
  const std::scoped_lock lock(span_mutex_);
  const auto kept = std::min<std::uint64_t>(span_count_, spans_.size());
  return {{spans_.begin(), spans_.begin() + static_cast<std::ptrdiff_t>(kept)}, span_count_ - kept};
}

void Worker::fail(FrameNumber frame, Error error) {
  const bool dropped = stage_.may_drop && error.code == Code::kAborted;
  auto& counter = dropped ? drops : errors;
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const bool cancelled = state_.ending.cancelled() && error.code == Code::kCancelled;
  const bool stops = !dropped && !cancelled && state_.options.on_error == plan::OnError::kStop;
  Error cause;
  const auto placed = [&] {
    Error made =
        std::move(error).within({Where::kFrame, frame}).within({Where::kStage, stage_.plan->name});
    if (stops) cause = made;
    return made;
  };
  const auto outcome = dropped     ? Outcome::kDropped
                       : cancelled ? Outcome::kCancelled
                                   : Outcome::kError;
  const bool first = state_.record(frame).fail(outcome, placed);
  // What a frame does not tell, since it was dropped before, stops nothing.
  if (first && stops) state_.cancel(cause.reason.empty() ? out_of_memory() : std::move(cause));
}

void Worker::finish(FrameNumber frame) {
  const bool alive = state_.record(frame).alive();
  for (Edge* edge : stage_.in_edges) edge->end_read(frame);
  for (Edge* edge : stage_.out_edges) {
    if (!edge->lossy()) continue;
    if (alive) {
      edge->end_write(frame);
    } else {
      edge->abandon_write(frame);
    }
  }
  for (StateEdge* state : stage_.states_out) state->complete(frame);
  stage_.ready_ns[frame & state_.window_mask] = clock_;
  stage_.progress.complete(frame);
}

void Worker::replace(std::int64_t ran_ns) {
  const FrameNumber frame = running_frame_.load(std::memory_order_relaxed);
  errors.store(errors.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  Status told = guarded([&]() -> Status {
    return make_error(Code::kDeadlineExceeded, "the call hangs: it has run for ", ms(ran_ns),
                      " ms, at most ", ms(max_run_ns_), " ms allowed (max_run)")
        .within({Where::kFrame, frame})
        .within({Where::kStage, stage_.plan->name});
  });
  Error cause = std::move(told).error();
  state_.record(frame).fail(Outcome::kError, [&] { return cause; });
  state_.hang(frame, std::move(cause));
  cancel_run();
  // Without a thread for it this one, the watchdog's, passes on the frames until the pipeline ends.
  if (!hand_over(frame)) take_over(frame);
}

std::int64_t Worker::ran_ns(CallClock::Reading reading) const {
  const bool counts = reading.phase == CallClock::Phase::kRunning ||
                      // Where a call hangs, what others wait for may never come.
                      (reading.phase == CallClock::Phase::kPaused && state_.ending.hangs());
  return counts ? now_ns() - reading.since_ns : 0;
}

std::optional<std::string> Worker::leave_behind() {
  const auto reading = call_->clock().read();
  if (!call_->clock().abandon(reading)) return std::nullopt;
  const FrameNumber frame = running_frame_.load(std::memory_order_relaxed);
  state_.record(frame).fail(Outcome::kCancelled, [&] { return state_.ending.error(); });
  if (!hand_over(frame)) leave();
  return concat("stage '", stage_.plan->name, "': frame ", frame, ": the call has run for ",
                ms(now_ns() - reading.since_ns),
                " ms and goes on; the pipeline ends without it, and leaves its thread behind");
}

bool Worker::hand_over(FrameNumber frame) {
  state_.left_calls.store(true);
  thread_.detach();
  return static_cast<bool>(
      start_thread(thread_, [this, keep = state_.shared_from_this(), frame] { take_over(frame); }));
}

// What the call may still read stays as it is: nothing of this frame is released.
void Worker::take_over(FrameNumber frame) {
  static_cast<void>(guarded([&]() -> Status {
    device::name_this_thread(thread_name());
    return {};
  }));
  clock_ = now_ns();
  for (StateEdge* state : stage_.states_out) state->complete(frame);
  stage_.ready_ns[frame & state_.window_mask] = clock_;
  stage_.computed[frame & state_.window_mask] = 0;
  stage_.progress.complete(frame);
  loop();
}

}  // namespace penstock::pipeline
