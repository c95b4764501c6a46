// Spans: which worker had which frame when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "penstock/backend/backend.h"
#include "penstock/pipeline/frame.h"

namespace penstock::pipeline {

/// One frame at one worker. Nanoseconds of this machine's steady clock: from when all that it reads
/// was there, and from when until when the worker had it.
struct Span {
  FrameNumber frame;
  std::int64_t ready_ns, start_ns, end_ns;
  backend::FarTimes far = {};  ///< Of another machine that computed it, if any.
};

/// Of one stage instance.
struct WorkerSpans {
  std::string stage;  ///< Its name in the plan.
  std::size_t replica = 0;
  std::string device;      ///< "cpu:0"
  std::vector<Span> kept;  ///< The last ones, in no order.
  std::uint64_t lost = 0;  ///< How many came before them.
  /// "stage0/1 on cpu:3"
  [[nodiscard]] std::string name() const;
};

}  // namespace penstock::pipeline
