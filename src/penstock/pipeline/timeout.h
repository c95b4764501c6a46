// How long a caller of the pipeline waits, and what it is told where that was too short.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/pipeline/parker.h"

namespace penstock::pipeline {

/// "push: no room within 50 ms: <why>". The time is data: who waits in slices tells of the whole.
template <typename... Args>
Error timed_out(std::string what, std::chrono::nanoseconds timeout, const Args&... why) {
  return make_error(Code::kDeadlineExceeded, why...)
      .within({Where::kTimeoutNs, timeout.count()})
      .within(std::move(what));
}

/// On the clock of now_ns(). kNoWait reads no clock.
inline std::int64_t deadline_of(std::chrono::nanoseconds timeout) {
  return timeout <= std::chrono::nanoseconds::zero() ? 0 : deadline_after(timeout);
}

}  // namespace penstock::pipeline
