// Advances the life under a lock, keeps the first cause, and words it for those who come late.
#include "penstock/pipeline/ending.h"

#include <utility>

namespace penstock::pipeline {

void Ending::advance(Life to, Error cause) {
  const std::scoped_lock lock(commit);
  {
    const std::scoped_lock cause_lock(cause_mutex_);
    if (cause_.reason.empty() && !cancelled()) cause_ = std::move(cause);
  }
  go_on(to);
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
    return std::move(told).within("the pipeline stopped at its first error");
  }
  return make_error(Code::kCancelled,
                    cancelled() ? "the pipeline was cancelled" : "the pipeline is closed");
}

void Ending::fail_from(FrameNumber frame) {
  FrameNumber first = fails_from_.load();
  while (frame < first && !fails_from_.compare_exchange_weak(first, frame)) {
  }
}

}  // namespace penstock::pipeline
