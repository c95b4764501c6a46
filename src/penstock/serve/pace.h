// Pace: how many requests are in a pipeline at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace penstock::serve {

/// A pipeline takes hundreds of small frames, in whose order nothing changes any more. Here no more
/// are let in than keep it busy: the others wait where priority, limit and deadline count.
/// \threads  all functions may be called from any thread.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;

  /// What the pipeline computes and passes on within this time is let in, and so many frames
  /// always.
  static constexpr std::chrono::milliseconds kHeld{20};
  /// In which requests that leave are counted, at least.
  static constexpr std::chrono::milliseconds kWindow{100};

  void let_in_at_least(std::size_t frames);
  /// Waits for room. \returns whether it is in, and leave() is due.
  bool enter(std::chrono::nanoseconds timeout);
  /// `computed`: as a frame that came out well.
  void leave(Clock::time_point now, bool computed = true);

 private:
  std::mutex mutex_;  // Guards all below.
  std::condition_variable left_;
  std::size_t inside_ = 0;
  std::size_t least_ = 1, most_ = 1;
  std::size_t done_ = 0;     // That were computed since `since_`.
  Clock::time_point since_;  // The first window has no end before: it counts for nothing.
};

}  // namespace penstock::serve
