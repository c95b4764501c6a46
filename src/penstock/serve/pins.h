// Pins: how many use a thing now, for who wants to take it away.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

namespace penstock::serve {

/// \threads  all functions may be called from any thread.
class Pins {
 public:
  void add() {
    const std::scoped_lock lock(mutex_);
    ++count_;
  }
  void remove() {
    const std::scoped_lock lock(mutex_);
    if (--count_ == 0) none_.notify_all();
  }
  /// False: some are left after `timeout`.
  bool wait_for_none(std::chrono::nanoseconds timeout) {
    std::unique_lock lock(mutex_);
    return none_.wait_for(lock, timeout, [&] { return count_ == 0; });
  }
  void wait_for_none() {
    std::unique_lock lock(mutex_);
    none_.wait(lock, [&] { return count_ == 0; });
  }
  [[nodiscard]] std::size_t count() const {
    const std::scoped_lock lock(mutex_);
    return count_;
  }

 private:
  mutable std::mutex mutex_;  // Guards `count_`.
  std::condition_variable none_;
  std::size_t count_ = 0;
};

/// Keeps what it points to from being taken away.
template <typename T>
class Pinned {
 public:
  Pinned(T* item, std::shared_ptr<Pins> pins) : item_(item), pins_(std::move(pins)) {
    pins_->add();
  }
  Pinned(Pinned&& other) noexcept = default;
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  Pinned& operator=(Pinned&&) = delete;
  ~Pinned() {
    if (pins_ != nullptr) pins_->remove();
  }
  T* operator->() const { return item_; }
  T& operator*() const { return *item_; }

 private:
  T* item_;
  std::shared_ptr<Pins> pins_;
};

}  // namespace penstock::serve
