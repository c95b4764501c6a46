// Collector: futures and callbacks.
#include <deque>
#include <mutex>
#include <thread>

#include "penstock/pipeline/pipeline.h"
#include "penstock/pipeline/thread.h"

namespace penstock::pipeline {

struct Collector::Shared {
  explicit Shared(Pipeline& collected) : pipeline(collected) {}

  Result<FrameNumber> submit(std::span<const Tensor> inputs, Callback done,
                             std::chrono::nanoseconds timeout) {
    // The callback must be known before the frame can come out; pushes take turns for it.
    const std::scoped_lock turn(push_mutex);
    if (!thread.joinable()) PENSTOCK_CHECK_OK(start_thread(thread, [this] { collect(); }));
    {
      const std::scoped_lock lock(mutex);
      waiting.push_back(std::move(done));
    }
    auto frame = pipeline.push(inputs, timeout);
    if (!frame) {
      const std::scoped_lock lock(mutex);
      waiting.pop_back();
    }
    return frame;
  }

  void collect() {
    for (;;) {
      auto output = pipeline.pop(kForever);
      if (!output || !*output) return;
      Callback done;
      {
        const std::scoped_lock lock(mutex);
        done = std::move(waiting.front());
        waiting.pop_front();
      }
      done(**std::move(output));
    }
  }

  Pipeline& pipeline;
  std::mutex push_mutex;
  std::mutex mutex;  // Guards `waiting`. Never held while pushing or calling back.
  std::deque<Callback> waiting;
  std::thread thread;  // Last: joined while all it uses is alive.
};

Collector::Collector(Pipeline& pipeline) : shared_(std::make_unique<Shared>(pipeline)) {}

Collector::~Collector() {
  shared_->pipeline.close();
  if (shared_->thread.joinable()) shared_->thread.join();
}

Result<std::future<Output>> Collector::submit(std::span<const Tensor> inputs,
                                              std::chrono::nanoseconds timeout) {
  auto promise = std::make_shared<std::promise<Output>>();
  auto future = promise->get_future();
  PENSTOCK_CHECK_OK(
      submit(inputs, [promise](Output output) { promise->set_value(std::move(output)); }, timeout));
  return future;
}

Status Collector::submit(std::span<const Tensor> inputs, Callback done,
                         std::chrono::nanoseconds timeout) {
  const auto frame = shared_->submit(inputs, std::move(done), timeout);
  return frame ? Status() : Status(frame.error());
}

}  // namespace penstock::pipeline
