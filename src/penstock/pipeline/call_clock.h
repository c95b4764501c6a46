// CallClock: how long a call has run, for those who look for calls that hang.
#pragma once

#include <atomic>
#include <cstdint>

namespace penstock::pipeline {

/// Of one call at a time. begin(), end(), pause() and resume() belong to the thread that makes the
/// call; read() and abandon() to any other. Times are nanoseconds of the steady clock.
class CallClock {
 public:
  enum class Phase : std::uint8_t {
    kNone,       ///< No call is in progress.
    kRunning,    ///< `since_ns` is when it began, pauses left out.
    kPaused,     ///< It waits for what others cause; `since_ns` is when the pause began.
    kAbandoned,  ///< Everybody else gave it up. This phase has no end.
  };
  struct Reading {
    Phase phase = Phase::kNone;
    std::int64_t since_ns = 0;
  };

  void begin(std::int64_t now_ns) { store({Phase::kRunning, now_ns}); }
  /// False: the call was abandoned; its thread touches nothing any more.
  [[nodiscard]] bool end() { return replace(read(), {}); }

  /// \returns how long the call has run; below 0: there is none, or not any more.
  std::int64_t pause(std::int64_t now_ns) {
    const Reading seen = read();
    if (seen.phase != Phase::kRunning || !replace(seen, {Phase::kPaused, now_ns})) return -1;
    return now_ns - seen.since_ns;
  }
  void resume(std::int64_t now_ns, std::int64_t ran_ns) {
    const Reading seen = read();
    if (seen.phase == Phase::kPaused) replace(seen, {Phase::kRunning, now_ns - ran_ns});
  }

  [[nodiscard]] Reading read() const {
    const auto packed = packed_.load(std::memory_order_acquire);
    return {static_cast<Phase>(packed & 3U), static_cast<std::int64_t>(packed >> 2U)};
  }
  [[nodiscard]] bool abandoned() const { return read().phase == Phase::kAbandoned; }
  /// From here on the thread that calls touches nothing any more. False: the call that was read has
  /// ended, or goes on otherwise.
  bool abandon(Reading seen) {
    return seen.phase != Phase::kNone && replace(seen, {Phase::kAbandoned, 0});
  }

 private:
  static std::uint64_t pack(Reading reading) {
    return (static_cast<std::uint64_t>(reading.since_ns) << 2U) |
           static_cast<std::uint64_t>(reading.phase);
  }
  void store(Reading reading) { packed_.store(pack(reading), std::memory_order_release); }
  bool replace(Reading seen, Reading by) {
    std::uint64_t expected = pack(seen);
    return seen.phase != Phase::kAbandoned &&
           packed_.compare_exchange_strong(expected, pack(by), std::memory_order_acq_rel);
  }

  std::atomic<std::uint64_t> packed_{0};
};

}  // namespace penstock::pipeline
