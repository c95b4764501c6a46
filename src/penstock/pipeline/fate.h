// Fate: whether an instance computes a frame that it has, and how a frame fails there.
#pragma once

#include <algorithm>

#include "penstock/base/result.h"
#include "penstock/pipeline/instance.h"
#include "penstock/pipeline/meter.h"

namespace penstock::pipeline {

/// \threads  the worker's own; fail() also another one's that gives up its call.
class Fate {
 public:
  Fate(Instance& instance, Meter& meter) : self_(instance), meter_(meter) {}

  /// Whether the frame is to be computed: it did not fail before this stage. One that failed on a
  /// parallel branch is not to be either, except where Stage::feeds_state.
  [[nodiscard]] bool is_due(FrameNumber frame) const {
    if (!self_.stage.feeds_state) return self_.state.record(frame).alive();
    return std::ranges::all_of(self_.stage.stages_before, [&](const Stage* before) {
      return before->computed[frame & self_.state.window_mask] != 0;
    });
  }
  /// Fails a frame that is given up, cancelled or behind a call that hangs. \returns whether it is.
  bool fail_if_ended(FrameNumber frame) {
    return !self_.state.ending.spares(frame) && fail_ended(frame);
  }
  /// Fails a frame that is past its deadline. \returns whether it is.
  bool fail_if_expired(FrameNumber frame) {
    if (!is_late(frame)) return false;
    fail_late(frame);
    return true;
  }
  [[nodiscard]] bool is_late(FrameNumber frame) const {
    const std::int64_t deadline = self_.state.record(frame).deadline_ns;
    return deadline != kNever && now_ns() > deadline;
  }
  void fail_late(FrameNumber frame);

  /// The frame failed here: `error` gets the frame and the stage as its places. Where the plan says
  /// so, the pipeline ends with it.
  void fail(FrameNumber frame, Error error);

 private:
  bool fail_ended(FrameNumber frame);
  [[nodiscard]] Error lateness(FrameNumber frame) const;

  Instance& self_;
  Meter& meter_;
};

}  // namespace penstock::pipeline
