// Observation: what Pipeline::observe() tells.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/pipeline/durations.h"
#include "penstock/pipeline/frame.h"

namespace penstock::pipeline {

/// A frame that failed.
struct Failure {
  FrameNumber frame = 0;
  std::uint64_t stream = 0;
  Error error;                               ///< Names stage and frame.
  std::chrono::system_clock::time_point at;  ///< When it came out.
};

inline constexpr std::size_t kFailuresKept = 100;

/// Of the frames that came out since the first look.
struct Observation {
  Durations latencies;  ///< From push to pop or callback, however they ended.
  std::uint64_t failed = 0;
  std::vector<Failure> failures;  ///< The last kFailuresKept of them, oldest first.
};

}  // namespace penstock::pipeline
