// WarmUp: runs of a start on zeros, ended where they take too long.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "penstock/backend/backend.h"
#include "penstock/base/result.h"

namespace penstock::pipeline {

/// Networks of which a run on zeros had to be ended in this process: later ones would be, too. Any
/// thread.
class Endless {
 public:
  static bool knows(const std::string& network);
  static void note(const std::string& network);
};

/// A network may loop until a value comes that zeros never give, and take more memory each time.
class WarmUp {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr Clock::duration kLongest = std::chrono::seconds(3);

  /// `network` is one's name in Endless; empty: it has none.
  explicit WarmUp(std::string network = {}, Clock::duration longest = kLongest)
      : network_(std::move(network)), longest_(longest), ended_(Endless::knows(network_)) {}

  /// Computes what `start` starts on the context, if no run had to be ended. False: nothing was
  /// computed. Zeros may be no fair input (an index out of range, a division). One thread.
  bool run(backend::Context& context, const std::function<Status()>& start) {
    if (has_ended()) return false;
    const bool computed = compute(context, start);
    // What was asked to end too late would end the context's next run, of a frame.
    if (computed && has_ended()) compute(context, start);
    return computed;
  }

  /// Ends a run that takes too long, and keeps others from beginning. Any thread, now and then.
  void look() {
    const std::scoped_lock lock(mutex_);
    if (running_ == nullptr || Clock::now() - began_ < longest_) return;
    ended_ = true;
    running_->cancel();
    Endless::note(network_);
  }

 private:
  bool has_ended() {
    const std::scoped_lock lock(mutex_);
    return ended_;
  }
  void runs_on(backend::Context* context) {
    const std::scoped_lock lock(mutex_);
    running_ = context;
    began_ = Clock::now();
  }
  bool compute(backend::Context& context, const std::function<Status()>& start) {
    runs_on(&context);
    const bool computed = start() && context.wait(backend::kNoDeadline);
    runs_on(nullptr);
    return computed;
  }

  const std::string network_;
  const Clock::duration longest_;
  std::mutex mutex_;
  backend::Context* running_ = nullptr;  // Where run() computes.
  Clock::time_point began_;
  bool ended_;
};

}  // namespace penstock::pipeline
