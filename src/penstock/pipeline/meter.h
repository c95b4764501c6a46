// Meter: what one instance counts and times of its frames.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "penstock/pipeline/histogram.h"
#include "penstock/pipeline/instance.h"
#include "penstock/pipeline/lane.h"
#include "penstock/pipeline/spans.h"
#include "penstock/pipeline/stats.h"

namespace penstock::pipeline {

/// \threads  written by the worker's own; what is public, and spans(), is read by any.
class Meter {
 public:
  explicit Meter(Instance& instance) : self_(instance) {}

  // Of each frame, in nanoseconds: its wait for an instance, the phases of its call, and copies
  // between memories (stats.h).
  Histogram queue, compute_input, compute_infer, compute_output, transfer;
  std::atomic<std::uint64_t> frames{0};           // Computed here.
  std::atomic<std::uint64_t> errors{0};           // That failed here.
  std::atomic<std::uint64_t> drops{0};            // That a function dropped here.
  std::atomic<std::uint64_t> surplus{0};          // Rows of calls that held no frame, or item.
  std::vector<std::atomic<std::uint64_t>> calls;  // [n - 1]: calls of n frames.
  struct CallTimes {
    std::atomic<std::uint64_t> all_ns{0};      // Of the calls of n frames, without their outputs.
    std::atomic<std::uint64_t> sampled_ns{0};  // Of those of them that tell the phases apart.
    std::atomic<std::uint64_t> input_ns{0}, output_ns{0};  // Of the sampled ones.
  };
  std::vector<CallTimes> call_times;  // [n - 1]
  /// Of calls of n frames: where not all are sampled, the phases are shared out as in those.
  [[nodiscard]] CallStats call_stats(std::size_t n) const;
  [[nodiscard]] double busy_ns() const;     ///< In calls that ended, with their copies.
  [[nodiscard]] WorkerSpans spans() const;  ///< If tracing.
  void keep_spans(std::size_t count);       ///< Of the last so many frames.

  /// Adds to one of the counters, which no other thread changes.
  static void add(std::atomic<std::uint64_t>& counter, std::uint64_t more = 1) {
    counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  /// The i-th frame of the lane's call was computed, at Instance::clock_ns.
  void note(const Lane& lane, std::size_t i);
  /// The i-th frame of the lane's call left it, computed or not, at Instance::clock_ns. \pre
  /// tracing
  void note_span(const Lane& lane, std::size_t i);
  /// The lane's call ended, at Instance::clock_ns. Tells Stage::period_ns.
  void note_call(const Lane& lane);
  /// Handing on the outputs of the call that was noted last took so long.
  void note_output(std::int64_t taken_ns);
  /// Whether no call of so many frames was counted: without one that tells the phases apart,
  /// call_stats() would tell of none.
  [[nodiscard]] bool is_first_of(std::size_t count) const {
    return count <= calls.size() && calls[count - 1].load(std::memory_order_relaxed) == 0;
  }
  /// Nanoseconds that a call takes, on average.
  [[nodiscard]] std::int64_t average_ns() const { return average_ns_; }

 private:
  void note_times(const Lane& lane);

  Instance& self_;
  std::int64_t average_ns_ = 0;    // Moving average of how long one call is computed.
  std::int64_t interval_ns_ = 0;   // Moving average between the ends of two frames.
  std::int64_t last_end_ns_ = 0;   // Steady clock: when the last call ended.
  std::size_t last_call_ = 0;      // Which of `call_times` it is of.
  mutable std::mutex span_mutex_;  // Guards spans_ and span_count_.
  std::vector<Span> spans_;        // If tracing: a ring of the last frames.
  std::uint64_t span_count_ = 0;   // Spans that were kept so far, those overwritten too.
};

}  // namespace penstock::pipeline
