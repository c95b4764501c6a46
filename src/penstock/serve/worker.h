// Worker: threads for calls that take long, so that those of a protocol never wait.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "penstock/base/result.h"

namespace penstock::serve {

/// \threads  all functions may be called from any thread.
class Worker {
 public:
  Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() { stop(); }

  /// \error kResourceExhausted  the system has no thread left.
  Status start(std::size_t threads = 1);
  /// Runs the tasks in their order, as many at once as there are threads.
  /// \error kUnavailable  stopped; kResourceExhausted  so many wait.
  Status post(std::function<void()> task);
  /// The tasks that wait are run before.
  void stop();

 private:
  void loop();

  std::mutex mutex_;  // Guards all below but the threads.
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace penstock::serve
