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

/// Who was not cancelled from here was let go there, by limits of the server's own. No call that
/// has ended says kDeadlineExceeded: that is of calls that go on.
Error ServedCall::ended_badly(Error error) const {
  constexpr std::int64_t kClocksDiffer = 10'000'000;  // gRPC ends calls by another clock.
  const bool is_late = deadline_ns_ != INT64_MAX && now_ns() >= deadline_ns_ - kClocksDiffer;
  const bool ended = error.code == Code::kCancelled || error.code == Code::kDeadlineExceeded;
  if (ended) error.code = left_ || is_late ? Code::kCancelled : Code::kUnavailable;
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
