// Gate: holds the workers of a generation, warmed up, until its first frame may begin.
#pragma once

#include <condition_variable>
#include <mutex>

namespace penstock::pipeline {

/// \threads  all functions from any thread.
class Gate {
 public:
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;  // Guards `open_`.
  std::condition_variable opened_;
  bool open_ = false;
};

}  // namespace penstock::pipeline
