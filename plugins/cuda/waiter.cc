// The thread's loop.
#include "waiter.h"

#include <system_error>
#include <utility>

namespace penstock::cuda {

Waiter::~Waiter() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

bool Waiter::start(std::function<void()> what) {
  {
    const std::scoped_lock lock(mutex_);
    next_ = std::move(what);
  }
  if (thread_.joinable()) {
    changed_.notify_one();
    return true;
  }
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
    const std::scoped_lock lock(mutex_);
    next_ = nullptr;
    return false;
  }
  return true;
}

void Waiter::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return next_ || ends_; });
    if (!next_) return;
    const auto what = std::exchange(next_, nullptr);
    lock.unlock();
    what();
    lock.lock();
  }
}

}  // namespace penstock::cuda
