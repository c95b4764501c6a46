// Waiter: a thread that sleeps until the device is done, so that nobody else needs to.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace penstock::cuda {

/// Does one thing at a time on a thread of its own, which begins with the first. One owner.
class Waiter {
 public:
  Waiter() = default;
  ~Waiter();
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  /// \pre nothing is being done. False: the system has no thread left.
  bool start(std::function<void()> what);

 private:
  void work();

  std::mutex mutex_;  // Guards the two below.
  std::function<void()> next_;
  bool ends_ = false;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace penstock::cuda
