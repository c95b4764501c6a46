// Record: what the pipeline remembers of a frame between push and release.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "penstock/base/cache_line.h"
#include "penstock/base/result.h"
#include "penstock/pipeline/frame.h"
#include "penstock/pipeline/parker.h"

namespace penstock::pipeline {

/// Alive until the first failure; parallel branches may race to be that first one.
class alignas(kCacheLine) Record {
 public:
  void reset(const FrameOptions& options, std::uint32_t seat_given, std::int64_t pushed_at,
             std::int64_t deadline) {
    tag = options.tag;
    if (traced_ || !options.traceparent.empty()) take_traceparent(options.traceparent);
    stream = options.stream;
    seat.store(seat_given, std::memory_order_relaxed);
    pushed_ns = pushed_at;
    deadline_ns.store(deadline, std::memory_order_relaxed);
    stages_left_.store(-1, std::memory_order_relaxed);
    life_.store(Life::kAlive, std::memory_order_relaxed);
  }

  [[nodiscard]] bool alive() const { return life_.load(std::memory_order_acquire) == Life::kAlive; }

  /// True if this was the first failure: the frame comes out with its error, `make_error()`.
  template <typename MakeError>
  bool fail(Outcome outcome, MakeError make_error) noexcept {
    Life expected = Life::kAlive;
    if (!life_.compare_exchange_strong(expected, Life::kDying, std::memory_order_acq_rel))
      return false;
    outcome_.store(outcome, std::memory_order_relaxed);
    try {
      error_ = in_stream(make_error());
    } catch (const std::bad_alloc&) {
      error_ = out_of_memory();
    }
    life_.store(Life::kDead, std::memory_order_release);
    return true;
  }

  /// An error of the frame names its stream, unless that is the one that is there always.
  [[nodiscard]] Error in_stream(Error error) const {
    return stream == 0 ? std::move(error) : std::move(error).within({Where::kStream, stream});
  }

  /// By its owner's wish; with its error.
  [[nodiscard]] bool cancelled() const { return failed_as(Outcome::kCancelled); }
  [[nodiscard]] bool dropped() const { return failed_as(Outcome::kDropped); }

  /// From here on nothing fails the frame. False: it failed before.
  bool come_out() {
    Life expected = Life::kAlive;
    return life_.compare_exchange_strong(expected, Life::kOut, std::memory_order_acq_rel);
  }

  /// \pre every stage has passed the frame, and it did not come_out().
  std::pair<Outcome, Error> take_failure() {
    while (life_.load(std::memory_order_acquire) != Life::kDead) {
    }
    return {outcome_.load(std::memory_order_relaxed), std::move(error_)};
  }

  /// The frame has a callback, to be called once so many stages are done with it.
  void call_back_after(int stages) { stages_left_.store(stages, std::memory_order_relaxed); }
  [[nodiscard]] bool calls_back() const {
    return stages_left_.load(std::memory_order_acquire) >= 0;
  }
  /// True: it was the last. \pre calls_back()
  bool leave_stage() { return stages_left_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

  std::uint64_t tag = 0;
  std::int64_t pushed_ns = 0;
  // Steady clock: no stage begins with the frame later. Atomic, as a replica may read it of a frame
  // that another one took.
  std::atomic<std::int64_t> deadline_ns{kNever};
  std::uint64_t stream = 0;
  // Of the frame's stream. Atomic, as a replica may read it of a frame that another one took.
  std::atomic<std::uint32_t> seat = 0;
  FrameNumber step = 0;  // How many frames the seat had before this one.
  // The frame may read its stream's states once their writers have completed this many frames:
  // those up to the stream's frame before it.
  FrameNumber behind = 0;

 private:
  [[nodiscard]] bool failed_as(Outcome outcome) const {
    return life_.load(std::memory_order_acquire) == Life::kDead &&
           outcome_.load(std::memory_order_relaxed) == outcome;
  }
  /// What a header cannot hold would end the connection that it is sent by.
  void take_traceparent(const std::string& given) {
    const bool printable = std::ranges::all_of(given, [](char c) { return c >= ' ' && c <= '~'; });
    traceparent = printable ? given : std::string();
    traced_ = !traceparent.empty();
  }

  enum class Life : std::uint8_t { kAlive, kDying, kDead, kOut };
  std::atomic<Life> life_{Life::kAlive};
  bool traced_ = false;               // `traceparent`, which lies cache lines away, is not empty.
  std::atomic<int> stages_left_{-1};  // Below 0: it has no callback.
  // A call that was left behind may still ask whether its frame, which had the record, was
  // cancelled.
  std::atomic<Outcome> outcome_ = Outcome::kOk;
  Error error_;

 public:
  std::string traceparent;  // FrameOptions::traceparent. Last: few frames have one.
};

}  // namespace penstock::pipeline
