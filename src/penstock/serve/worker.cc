// A bounded queue of tasks, and the threads that run them in turn.
#include "penstock/serve/worker.h"

#include <utility>

#include "penstock/base/thread.h"
#include "penstock/pipeline/guarded.h"

namespace penstock::serve {
namespace {

constexpr std::size_t kMostWaiting = 64;

}  // namespace

Status Worker::start(std::size_t threads) {
  for (std::size_t i = 0; i < threads; ++i) {
    PENSTOCK_CHECK_OK(start_thread(threads_.emplace_back(), [this] { loop(); }));
  }
  return {};
}

Status Worker::post(std::function<void()> task) {
  const std::scoped_lock lock(mutex_);
  if (ends_) return make_error(Code::kUnavailable, "the server is shutting down");
  if (tasks_.size() >= kMostWaiting) {
    return make_error(Code::kResourceExhausted, kMostWaiting,
                      " tasks wait, such as models to be loaded; try again later");
  }
  tasks_.push_back(std::move(task));
  changed_.notify_one();
  return {};
}

void Worker::stop() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Worker::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    // One that finds no memory is let go of, and with it whoever waits for its answer.
    static_cast<void>(pipeline::guarded([&]() -> Status {
      task();
      return {};
    }));
    task = nullptr;  // What it holds may want the lock.
    lock.lock();
  }
}

}  // namespace penstock::serve
