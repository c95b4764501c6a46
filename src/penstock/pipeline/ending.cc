// Advances the life under a lock, keeps the first cause, and words it for those who come late.
#include "penstock/pipeline/ending.h"

#include <utility>

namespace penstock::pipeline {
namespace {

constexpr const char* kStopped = "the pipeline stopped at its first error";

}  // namespace

void Ending::advance(Life to, Error cause) {
  const std::scoped_lock lock(commit);
  {
    const std::scoped_lock cause_lock(cause_mutex_);
    if (cause_.reason.empty() && !cancelled()) cause_ = std::move(cause);
  }
  go_on(to);
}

void Ending::cut(FrameNumber first, Cut cut, Error cause) {
  const std::scoped_lock lock(commit);
  if (cut == Cut::kHang) hangs_.store(true, std::memory_order_relaxed);
  if (first < fails_from_.load()) {
    if (!cancelled()) {
      const std::scoped_lock cause_lock(cause_mutex_);
      cause_ = std::move(cause);
      cut_ = cut;
    }
    fails_from_.store(first);  // Behind the cause: who sees that a frame fails asks why.
  }
  go_on(Life::kClosed);
}

void Ending::go_on(Life to) {
  if (life() < to) life_.store(to, std::memory_order_seq_cst);
}

void Ending::replace() {
  replaced_.store(true, std::memory_order_seq_cst);  // First: who sees the end sees what follows.
  go_on(Life::kClosed);
}

Error Ending::error() const {
  const std::scoped_lock lock(cause_mutex_);
  if (!cause_.reason.empty()) {
    Error told = cause_;  // With its places: a program asks for the stage.
    told.code = Code::kCancelled;
    return std::move(told).within(cut_ == Cut::kHang ? "the pipeline stopped at a call that hangs"
                                                     : kStopped);
  }
  return make_error(Code::kCancelled,
                    cancelled() ? "the pipeline was cancelled" : "the pipeline is closed");
}

Cut Ending::what_cuts() const {
  const std::scoped_lock lock(cause_mutex_);
  return cut_;
}

Error Ending::behind_cut() const {
  const std::scoped_lock lock(cause_mutex_);
  if (cut_ == Cut::kError) {
    Error told = cause_;
    told.code = Code::kCancelled;
    return std::move(told).within(kStopped);
  }
  Error told = cause_;
  told.code = Code::kDeadlineExceeded;  // Also where no memory was left to tell of the call.
  return std::move(told).within("behind a call that hangs");
}

}  // namespace penstock::pipeline
