// Parker: how one thread sleeps and another wakes it. The only file that knows the futex.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <mutex>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "penstock/base/cache_line.h"

namespace penstock::pipeline {

/// Of std::chrono::steady_clock, asked without the library's two calls: every frame does several
/// times.
inline std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
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
class alignas(kCacheLine) Parker {
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
    return begin(
        false, [&] { return ended() || (deadline != kNever && now_ns() >= deadline); },
        [&] { return deadline; });
  }
  /// With `first`, before all who wait without it; these may wait for ever then.
  /// False: `over()` was true at a call of wake_all() or before, or at a time of `next_look()`.
  template <typename Over, typename NextLook>
  bool begin(bool first, Over over, NextLook next_look) {
    std::uint32_t free = 0;
    if (state_.compare_exchange_strong(free, kTaken, std::memory_order_acquire)) return true;
    Waiter self{.first = first};
    add(self);
    for (;;) {
      self.parker.prepare();
      if (take(self)) return true;
      if (over()) break;
      self.parker.sleep(next_look());
      self.has_slept = true;
    }
    leave(self);
    return false;
  }

  void end() {
    // One instruction, where fetch_and() of a value that is used is a loop.
    if ((state_.fetch_sub(kTaken) & kAwaited) == 0) return;
    const std::scoped_lock lock(mutex_);
    wake_next();
  }

  /// All who wait for the turn ask `ended()` again.
  void wake_all() {
    const std::scoped_lock lock(mutex_);
    for (Waiter* waiter = waiters_; waiter != nullptr; waiter = waiter->next) waiter->parker.wake();
  }

 private:
  static constexpr std::uint32_t kTaken = 1, kAwaited = 2;

  struct Waiter {
    Parker parker;
    Waiter* next = nullptr;
    bool first = false;
    bool has_slept = false;
  };

  void add(Waiter& self) {
    const std::scoped_lock lock(mutex_);
    Waiter** place = &waiters_;
    while (*place != nullptr && ((*place)->first || !self.first)) place = &(*place)->next;
    self.next = *place;
    *place = &self;
    state_.fetch_or(kAwaited);
  }

  bool take(Waiter& self) {
    const std::scoped_lock lock(mutex_);
    // Among equals one that comes takes it, so that nobody waits for a thread to wake. One that has
    // slept may be up for a look only: whoever stands before it has been woken for the turn.
    if (waiters_ != &self && (self.has_slept || (waiters_->first && !self.first))) return false;
    if ((state_.fetch_or(kTaken) & kTaken) != 0) return false;
    remove(self);
    return true;
  }

  void leave(Waiter& self) {
    const std::scoped_lock lock(mutex_);
    remove(self);
    if ((state_.load() & kTaken) == 0) wake_next();  // It may have been woken for the turn.
  }

  void remove(Waiter& self) {
    Waiter** place = &waiters_;
    while (*place != &self) place = &(*place)->next;
    *place = self.next;
    if (waiters_ == nullptr) state_.fetch_and(~kAwaited);
  }

  void wake_next() {
    if (waiters_ != nullptr) waiters_->parker.wake();
  }

  std::atomic<std::uint32_t> state_{0};  // kAwaited as long as there are waiters.
  std::mutex mutex_;                     // Guards `waiters_`.
  Waiter* waiters_ = nullptr;            // Those that go first before the others.
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

/// Has the cache line of `what` come here, to be written soon: a locked instruction waits for it.
inline void expect_write(const void* what) {
#if defined(__x86_64__)  // For the builtin to say so, the compiler must be told of newer
                         // processors.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(what)));
#else
  __builtin_prefetch(what, 1);
#endif
}

/// Tells the processor that this is a spin loop.
inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("yield");
#endif
}

}  // namespace penstock::pipeline
