// Wait: how a part of the pipeline sleeps until another one has come far enough.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "penstock/pipeline/parker.h"
#include "penstock/pipeline/progress.h"

namespace penstock::pipeline {

/// What of a wait is fixed before the threads start: whom to wait for, and which cell is ours.
struct Wait {
  Progress* progress = nullptr;    // Of the part that is waited for.
  Progress::Cell* cell = nullptr;  // In which this sleeper says what it waits for.
  // Nanoseconds between two frames of that part, on average; null: unknown.
  const std::atomic<std::int64_t>* period_ns = nullptr;
  FrameNumber seen = 0;  // progress->done() as last read, kept since reading it costs a cache miss.
};

/// How many frames a sleeper is content to be woken for at once, and how long these may take.
struct Batch {
  /// Nanoseconds that a stage may sleep on: the other end has a backlog that lasts longer.
  static constexpr std::int64_t kStagePatience = 400'000;
  /// Nanoseconds that the caller's thread may sleep on. More than a stage's, since the caller has
  /// no CPU of its own, and takes a stage's every time it wakes.
  static constexpr std::int64_t kCallerPatience = 2'000'000;

  FrameNumber frames = 1;
  std::int64_t patience_ns = kStagePatience;
};

/// Sleeps until `wait.progress` reaches `least`, or something about the pipeline changes, or
/// `deadline`. Under backlog it may ask to be woken later, for up to `batch.frames` at once where
/// these are due within `batch.patience_ns`: waking a thread costs its waker 7-18 us, so wakes are
/// what bounds the rate of short stages. `interrupted()` is checked after the wait is announced.
template <typename Interrupted>
void sleep_until(Wait& wait, FrameNumber least, Batch batch, std::int64_t deadline,
                 Interrupted interrupted) {
  constexpr int kSpins = 20;  // About 1 us.
  for (int i = 0; i < kSpins; ++i) {
    wait.seen = wait.progress->done();
    if (wait.seen >= least || interrupted()) return;
    relax();
  }
  if (batch.frames > 1) {
    const std::int64_t period =
        wait.period_ns == nullptr ? 0 : wait.period_ns->load(std::memory_order_relaxed);
    const auto due = static_cast<FrameNumber>(period > 0 ? batch.patience_ns / period : 1);
    batch.frames = std::min(batch.frames, std::max<FrameNumber>(due, 1));
  }
  const FrameNumber target = least + batch.frames - 1;
  // A batch is only ever waited for this long: whatever holds it up, `least` is looked at again.
  const std::int64_t until =
      batch.frames > 1 ? std::min(deadline, now_ns() + batch.patience_ns) : deadline;
  Parker& parker = wait.cell->parker();
  parker.prepare();
  wait.cell->await(target);
  wait.seen = wait.progress->done();
  if (wait.seen >= target || interrupted()) {
    parker.abandon();
  } else {
    parker.sleep(until);
  }
  wait.cell->withdraw();
  wait.seen = wait.progress->done();
}

}  // namespace penstock::pipeline
