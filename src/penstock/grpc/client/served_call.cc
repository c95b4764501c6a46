// Waits for the end of a call, reads its answer, and decides which error its caller is told.
#include "penstock/grpc/client/served_call.h"

#include <chrono>
#include <utility>

#include "penstock/grpc/client/question.h"

namespace penstock::grpc {

bool ServedCall::wait(std::int64_t until_ns) {
  std::unique_lock lock(mutex_);
  const auto ended = [&] { return ended_; };
  if (until_ns == INT64_MAX) {
    changed_.wait(lock, ended);
    return true;
  }
  const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(until_ns)};
  return changed_.wait_until(lock, until, ended);
}

Status ServedCall::take(std::span<Tensor* const> outputs, std::uint64_t& allocations) {
  if (!outcome_) return ended_badly(std::move(outcome_).error());
  Status read = read_answer(*outcome_, outputs_, outputs, allocations);
  outcome_ = make_error(Code::kInternal, "the answer was taken");  // Frees it.
  if (!read) return std::move(read).error().within({Where::kPeer, peer_});
  return {};
}

/// What is over time is no call that goes on. Who was not cancelled from here was let go there.
Error ServedCall::ended_badly(Error error) const {
  const bool has_deadline = deadline_ns_ != INT64_MAX;
  const bool by_us = left_ || (has_deadline && now_ns() >= deadline_ns_);
  if (error.code == Code::kCancelled && !by_us) error.code = Code::kUnavailable;
  if (error.code == Code::kDeadlineExceeded && has_deadline) error.code = Code::kCancelled;
  if (error.find(Where::kPeer)) return error;
  return std::move(error).within({Where::kPeer, peer_});
}

void ServedCall::end(Result<Answer> outcome) {
  {
    const std::scoped_lock lock(mutex_);
    if (ended_) return;
    outcome_ = std::move(outcome);
    ended_ = true;
    if (done_ != nullptr) done_(whom_);
  }
  changed_.notify_all();
}

}  // namespace penstock::grpc
