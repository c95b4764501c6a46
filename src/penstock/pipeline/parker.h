// Parker: how one thread sleeps and another wakes it. The only file that knows the futex.
#pragma once

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace penstock::pipeline {

inline std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

inline constexpr std::int64_t kNever = INT64_MAX;

/// A point in time `timeout` from now, kNever where that is past the end of time.
inline std::int64_t deadline_after(std::chrono::nanoseconds timeout) {
  if (timeout == std::chrono::nanoseconds::max()) return kNever;
  const std::int64_t now = now_ns();
  return timeout.count() > kNever - now ? kNever : now + timeout.count();
}

/// One sleeping place for one thread. The sleeper announces (prepare), looks once more whether it
/// still has to sleep, then sleeps; wake() costs a system call only if somebody sleeps.
class alignas(64) Parker {
 public:
  void prepare() { asleep_.store(1, std::memory_order_seq_cst); }
  void abandon() { asleep_.store(0, std::memory_order_relaxed); }

  /// Sleeps until wake() since the last prepare(), or until `deadline` (steady clock).
  /// Returns false on time-out.
  bool sleep(std::int64_t deadline) {
    while (asleep_.load(std::memory_order_acquire) == 1) {
      timespec until{};
      if (deadline != kNever) {
        until.tv_sec = deadline / 1'000'000'000;
        until.tv_nsec = deadline % 1'000'000'000;
      }
      // FUTEX_WAIT_BITSET takes an absolute time of the monotonic clock, which steady_clock is.
      syscall(SYS_futex, &asleep_, FUTEX_WAIT_BITSET_PRIVATE, 1,
              deadline == kNever ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
      if (deadline != kNever && now_ns() >= deadline) {
        return asleep_.exchange(0, std::memory_order_acquire) == 0;
      }
    }
    return true;
  }

  void wake() {
    if (asleep_.exchange(0, std::memory_order_seq_cst) == 1) {
      syscall(SYS_futex, &asleep_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
  }

 private:
  std::atomic<std::uint32_t> asleep_{0};
};

/// One of several threads has the turn. Unlike a mutex, any thread may end a turn.
class Turn {
 public:
  /// False: somebody else had it until `deadline`, or until `ended()` was true at a call of
  /// wake_all() or before.
  template <typename Ended>
  bool begin(std::int64_t deadline, Ended ended) {
    std::uint32_t free = kFree;
    if (state_.compare_exchange_strong(free, kTaken, std::memory_order_acquire)) return true;
    while (state_.exchange(kAwaited, std::memory_order_seq_cst) != kFree) {
      if (ended() || (deadline != kNever && now_ns() >= deadline)) return false;
      timespec until{.tv_sec = deadline / 1'000'000'000, .tv_nsec = deadline % 1'000'000'000};
      syscall(SYS_futex, &state_, FUTEX_WAIT_BITSET_PRIVATE, kAwaited,
              deadline == kNever ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
    }
    return true;
  }

  void end() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) {
      syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
  }

  /// All who wait for the turn ask `ended()` again.
  void wake_all() {
    std::uint32_t awaited = kAwaited;
    // Who is about to sleep finds another value than the one that it would sleep on.
    if (!state_.compare_exchange_strong(awaited, kTaken, std::memory_order_seq_cst)) return;
    syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }

 private:
  enum : std::uint32_t { kFree, kTaken, kAwaited };
  std::atomic<std::uint32_t> state_{kFree};
};

/// Whose turn it is, ended on every way out.
class TurnGuard {
 public:
  explicit TurnGuard(Turn* turn) : turn_(turn) {}
  TurnGuard(const TurnGuard&) = delete;
  TurnGuard& operator=(const TurnGuard&) = delete;
  ~TurnGuard() {
    if (turn_ != nullptr) turn_->end();
  }
  void keep() { turn_ = nullptr; }  ///< The turn goes on: somebody else ends it.

 private:
  Turn* turn_;
};

/// Tells the processor that this is a spin loop.
inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("yield");
#endif
}

}  // namespace penstock::pipeline
