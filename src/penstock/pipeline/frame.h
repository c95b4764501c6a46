// Frame: one item of the stream, as the caller sees it come out.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock::pipeline {

/// 0, 1, 2, ... in the order pushed, which is the order popped; those with callbacks count too.
using FrameNumber = std::uint64_t;

/// How a frame ended.
enum class Outcome : std::uint8_t {
  kOk,         ///< outputs() hold its results.
  kError,      ///< A stage failed, or its deadline passed: error() names stage, frame and cause.
  kDropped,    ///< By an edge's policy or a function: error() names it, and says why.
  kCancelled,  ///< It was cancelled, or the pipeline was, or stopped, before it came out.
};

struct State;    // The running pipeline; private.
class Delivery;  // Private too.

/// One frame that came out. Has the pipeline's output slot until it is destroyed (from any thread,
/// in any order; it may outlive the Pipeline). While it is held, the slot is not used again: where
/// the pipeline needs it, it takes another one, for Options::max_held results at a time. Holding
/// that many and as many as the output edge has slots stops the pipeline.
class Output {
 public:
  Output(Output&&) noexcept;
  Output& operator=(Output&&) noexcept;
  ~Output();

  [[nodiscard]] FrameNumber number() const { return number_; }
  [[nodiscard]] std::uint64_t tag() const { return tag_; }  ///< As given to push().
  [[nodiscard]] std::uint64_t stream() const { return stream_; }
  [[nodiscard]] Outcome outcome() const { return outcome_; }
  [[nodiscard]] bool ok() const { return outcome_ == Outcome::kOk; }
  /// Names stage and frame, and the stream unless that is 0. \pre !ok()
  [[nodiscard]] const Error& error() const { return *error_; }
  /// From push() to pop().
  [[nodiscard]] std::chrono::nanoseconds latency() const { return latency_; }

  /// In the order of plan.outputs. Empty unless ok().
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] const Tensor& operator[](std::size_t index) const;
  /// By the model's own name; null if there is none of that name, or unless ok().
  [[nodiscard]] const Tensor* find(std::string_view name) const;
  /// Moves one output out; the slot gets new storage (one allocation). \pre ok()
  Tensor take(std::size_t index);

 private:
  friend class Pipeline;
  friend class Delivery;
  enum class By : std::uint8_t { kPop, kCallback };
  Output(std::shared_ptr<State> state, FrameNumber number, By by);
  void release();

  std::shared_ptr<State> state_;
  FrameNumber number_ = 0;
  std::uint64_t tag_ = 0;
  std::uint64_t stream_ = 0;
  Outcome outcome_ = Outcome::kOk;
  std::chrono::nanoseconds latency_{0};
  std::optional<Error> error_;  // Where it is not ok: results are moved often.
};

/// Orders those who wait to push, and nothing else: frames do not overtake one another.
enum class Priority : std::uint8_t {
  kNormal,  ///< May wait for ever where high ones never cease to come.
  kHigh,    ///< Before all normal ones that wait for their turn.
};

/// What a frame is pushed with, besides its inputs.
struct FrameOptions {
  std::uint64_t tag = 0;  ///< The caller's own: Output::tag() gives it back.
  /// No stage begins with the frame any later, and calls that can end in time are told. Empty: as
  /// max_age says, counted from the push.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::uint64_t stream = 0;  ///< The sequence of frames that it is of, with states of its own.
  Priority priority = Priority::kNormal;  ///< push_acquired() has its turn already.
  /// The frame does not come out by pop(): this is called with it, once, however it ended, also
  /// where the pipeline is destroyed before. One at a time, by a thread of the pipeline's, which
  /// the first such push starts; so it should be short, must not wait for other frames (a push
  /// waits for room, that is for frames to come out), nor destroy the pipeline. What it throws is
  /// lost.
  std::function<void(Output)> done;
  /// With `done`: behind those of the frames that were pushed before with `in_order`. Else as soon
  /// as every stage is done with the frame, which is earlier where replicas overtake one another.
  /// Either way behind those of its stream that were pushed before.
  bool in_order = true;
  /// With `done`: it takes microseconds and waits for nothing. A stage's thread that has nothing
  /// else to do then calls it itself: a frame that comes alone is spared the wake-up of another.
  bool brief = false;
  /// While the push waits, its thread asks this 20 times a second, and once more before the frame
  /// goes in; it waits meanwhile for nobody who resets, saves or ends streams: that waits for this
  /// push. Once it is false, the push ends with kCancelled. Its place among those that wait stays
  /// meanwhile. Empty: nobody is asked.
  std::function<bool()> still_wanted;
  /// W3C trace context of who asks: goes with the frame to other machines. Empty: none. One that
  /// holds anything but printable ASCII is left out, as no header can hold it.
  std::string traceparent;
};
/// Nothing of that: what most frames are pushed with is made once.
inline const FrameOptions kPlainFrame{};

}  // namespace penstock::pipeline
