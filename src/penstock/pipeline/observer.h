// Observer: what is kept of the frames that come out, once somebody looks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "penstock/pipeline/histogram.h"
#include "penstock/pipeline/observation.h"

namespace penstock::pipeline {

/// \threads  note() by who pops or calls back; observation() by anybody.
class Observer {
 public:
  /// `popped`: in the popper's turn. Callbacks of two plans that run at once may lose a count.
  void note(const Output& output, bool popped) noexcept {
    (popped ? popped_ : called_back_).record(output.latency().count());
    if (output.outcome() == Outcome::kError) keep(output);
  }

  [[nodiscard]] Observation observation() const {
    Observation made;
    made.latencies = Histogram::durations({&popped_, &called_back_});
    const std::scoped_lock lock(mutex_);
    made.failed = failed_;
    made.failures.assign(failures_.begin(), failures_.end());
    return made;
  }

 private:
  // Without memory it is counted alone.
  void keep(const Output& output) {
    const std::scoped_lock lock(mutex_);
    ++failed_;
    try {
      failures_.push_back(
          {output.number(), output.stream(), output.error(), std::chrono::system_clock::now()});
    } catch (const std::bad_alloc&) {
      return;
    }
    if (failures_.size() > kFailuresKept) failures_.pop_front();
  }

  Histogram popped_, called_back_;
  mutable std::mutex mutex_;  // Guards failed_ and failures_.
  std::uint64_t failed_ = 0;
  std::deque<Failure> failures_;
};

/// None until the first look; one for all plans of a pipeline.
class ObserverPlace {
 public:
  /// Null: nobody looks.
  [[nodiscard]] Observer* get() const { return observer_.load(std::memory_order_acquire); }
  Observer& make() {
    std::call_once(made_, [this] {
      owned_ = std::make_unique<Observer>();
      observer_.store(owned_.get(), std::memory_order_release);
    });
    return *owned_;
  }

 private:
  std::once_flag made_;
  std::unique_ptr<Observer> owned_;
  std::atomic<Observer*> observer_ = nullptr;
};

}  // namespace penstock::pipeline
