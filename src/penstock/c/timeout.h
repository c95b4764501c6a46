// Timeouts of C as the library's.
#pragma once

#include <chrono>
#include <cstdint>

#include "penstock/pipeline/pipeline.h"

namespace penstock::c {

/// A negative one is for ever.
inline std::chrono::nanoseconds to_timeout(std::int64_t timeout_ns) {
  return timeout_ns < 0 ? pipeline::kForever : std::chrono::nanoseconds(timeout_ns);
}

}  // namespace penstock::c
