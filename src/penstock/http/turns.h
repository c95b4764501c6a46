// Turns: bodies that are costly to read wait for one another, so that a thread is left for others.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

namespace penstock::http {

class Turns {
 public:
  /// `threads`: of the server; all but one may be taken, but one in any case.
  explicit Turns(int threads) : free_(std::max(1, threads - 1)) {}

  /// Calls `begin` now or, where all turns are taken, when it is the first that waits and one ends.
  /// What `begin` throws now is thrown, and takes no turn.
  void take(std::function<void()> begin) {
    {
      const std::scoped_lock lock(mutex_);
      if (free_ == 0) return waiting_.push_back(std::move(begin));
      --free_;
    }
    try {
      begin();
    } catch (...) {
      end();
      throw;
    }
  }

  /// Of one that began. By its end another one begins; one that cannot is dropped.
  void end() noexcept {
    while (const auto begin = next()) {
      try {
        return begin();
      } catch (...) {  // There is no memory for it.
      }
    }
  }

  /// Those that wait never begin.
  void forget_waiting() {
    std::deque<std::function<void()>> forgotten;
    const std::scoped_lock lock(mutex_);
    forgotten.swap(waiting_);
  }

 private:
  /// Null where none waits: a turn more is free.
  std::function<void()> next() noexcept {
    const std::scoped_lock lock(mutex_);
    if (waiting_.empty()) {
      ++free_;
      return nullptr;
    }
    auto begin = std::move(waiting_.front());
    waiting_.pop_front();
    return begin;
  }

  std::mutex mutex_;  // Guards what follows.
  int free_;
  std::deque<std::function<void()>> waiting_;
};

}  // namespace penstock::http
