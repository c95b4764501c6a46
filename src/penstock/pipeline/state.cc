// How a running plan drains, cancels, ends and is freed.
#include "penstock/pipeline/state.h"

#include <algorithm>
#include <utility>

#include "penstock/base/words.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/pipeline/timeout.h"
#include "penstock/pipeline/worker.h"

namespace penstock::pipeline {

State::State() = default;
State::~State() = default;

void State::wake_everybody() {
  source.wake_all();
  sink.wake_all();
  turns->pusher.wake_all();
  streams->wake_all();
  for (auto& stage : stages) {
    stage->progress.wake_all();
    stage->returns.wake();
  }
}

void State::cancel(Error cause) {
  Status copy = guarded([&]() -> Status { return cause; });  // Stages' threads call this.
  ending.advance(Life::kCancelled, std::move(cause));
  for (auto& worker : workers) worker->cancel_runs();
  wake_everybody();
  // From here on it is replaced or never will be: both are done under Ending::commit.
  if (!ending.replaced()) return;
  if (const auto next = successor.lock()) next->cancel(std::move(copy).error());
}

bool State::cancel_frame(FrameNumber frame) {
  {
    const std::scoped_lock lock(ending.commit);  // No other frame gets the record meanwhile.
    const FrameNumber pushed = source.done();
    if (frame < first || frame >= pushed || pushed - frame > records.size()) return false;
    const bool cancelled = record(frame).fail(Outcome::kCancelled, [&] {
      return make_error(Code::kCancelled, "cancelled by its number").within({Where::kFrame, frame});
    });
    if (!cancelled) return false;
  }
  let_out(frame, frame + 1);
  for (auto& worker : workers) worker->end_cancelled_calls();
  return true;
}

void State::let_out(FrameNumber begin, FrameNumber end) {
  for (Worker* worker : fillers) worker->let_out(begin, end);
}

void State::hurry(FrameNumber frame) {
  FrameNumber hurried = hurried_before.load();
  while (hurried <= frame && !hurried_before.compare_exchange_weak(hurried, frame + 1)) {
  }
  let_out(0, frame + 1);
}

bool State::wait_until_workers_left(std::int64_t deadline) {
  std::unique_lock lock(left_mutex);
  return wait_until(left, lock, deadline, [&] { return running_workers == 0; });
}

void State::keep_for_ever() {
  static std::mutex mutex;
  static State* last_kept = nullptr;
  const std::scoped_lock lock(mutex);
  if (kept_) return;
  kept_ = shared_from_this();
  kept_before_ = std::exchange(last_kept, this);
}

void State::free_stages() {
  for (auto& worker : workers) worker->free();
  for (auto& stage : stages) {
    stage->partitions.clear();
    stage->versions.clear();
  }
  states.clear();
  options = {};
  backends = {};
  for (auto& edge : edges) {
    const bool leaves = std::ranges::find(edge->to, plan::kPipelineOutput) != edge->to.end();
    if (!leaves) edge->free_slots();
  }
}

void State::hang(FrameNumber frame, Error cause) {
  ending.cut(frame, Cut::kHang, std::move(cause));
  wake_everybody();
}

void State::stop_behind(FrameNumber frame, Error cause) {
  Status copy = guarded([&]() -> Status { return cause; });  // Stages' threads call this.
  ending.cut(frame + 1, Cut::kError, std::move(cause));
  wake_everybody();
  // From here on it is replaced or never will be: both are done under Ending::commit.
  if (!ending.replaced()) return;
  if (const auto next = successor.lock()) next->cancel(std::move(copy).error());
}

void State::begin_at(FrameNumber next) {
  first = next;
  next_pop = next;
  source.begin_at(next);
  sink.begin_at(next);
  for (auto& stage : stages) {
    stage->next.store(next, std::memory_order_relaxed);
    stage->progress.begin_at(next);
  }
}

void State::stop() {
  ending.advance(Life::kStopping);
  gate.open();
  wake_everybody();
}

void State::end() {
  stop();
  if (watchdog) {
    wait_until_workers_left(kNever);  // The watchdog replaces those that hang.
    watchdog->stop();                 // It stays: who cancels meanwhile may wake it.
  }
  {
    const std::scoped_lock lock(looked_at);
    for (auto& worker : workers) worker->join();
  }
  delivery.end();  // Callbacks may look.
  const std::scoped_lock lock(looked_at);
  if (!left_calls.load()) {
    free_stages();
    return;
  }
  const auto keeps = [](const auto& worker) { return worker->keeps_lost(); };
  if (std::ranges::any_of(workers, keeps)) keep_for_ever();
}

Status State::drain(std::chrono::nanoseconds timeout, std::int64_t deadline, FrameNumber end) {
  if (!drainers_turn.begin(deadline, [] { return false; })) {
    return timed_out("drain: no turn", timeout, "another thread was draining");
  }
  const TurnGuard guard(&drainers_turn);
  const FrameNumber pushed = std::min(end, source.done());
  if (pushed > first) hurry(pushed - 1);
  for (auto& wait : drainer.waits) {
    while ((wait.seen = wait.progress->done()) < pushed) {
      if (deadline == 0 || (deadline != kNever && now_ns() >= deadline)) {
        return timed_out("drain: not done", timeout, counted(pushed - wait.seen, "frame"),
                         " still in flight");
      }
      if (releases.stuck(totals->all(), sink.done(), awaiting_release.load(), now_ns())) {
        return make_error(
            Code::kFailedPrecondition, "drain: the results fill the output edge, with ",
            counted(pushed - wait.seen, "frame"), " behind them; pop them, then drain");
      }
      sleep_until(wait, pushed, {}, std::min(deadline, now_ns() + ReleaseWatch::kLook),
                  [] { return false; });
    }
  }
  return {};
}

}  // namespace penstock::pipeline
