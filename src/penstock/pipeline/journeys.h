// Journeys: when each frame was pushed and came out, kept for a trace.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "penstock/pipeline/frame.h"
#include "penstock/pipeline/pipeline.h"

namespace penstock::pipeline {

/// Nanoseconds of the steady clock.
struct Journey {
  FrameNumber frame;
  std::int64_t pushed_ns, popped_ns;
};

/// The last `most` of them, for which there is room from the beginning. \threads  any.
class Journeys {
 public:
  explicit Journeys(std::size_t most) : most_(most) { kept_.reserve(most); }
  void add(const Journey& journey) noexcept {
    const std::scoped_lock lock(mutex_);
    if (kept_.size() < most_) {
      kept_.push_back(journey);
    } else {
      kept_[count_ % most_] = journey;
    }
    ++count_;
  }
  /// By frame.
  [[nodiscard]] std::vector<Journey> sorted() const {
    std::unique_lock lock(mutex_);
    auto journeys = kept_;
    lock.unlock();
    std::ranges::sort(journeys, {}, &Journey::frame);
    return journeys;
  }

 private:
  const std::size_t most_;
  mutable std::mutex mutex_;
  std::vector<Journey> kept_;
  std::uint64_t count_ = 0;
};

}  // namespace penstock::pipeline
