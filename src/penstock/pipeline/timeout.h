// How long a caller of the pipeline waits, and what it is told where that was too short.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/pipeline/parker.h"

namespace penstock::pipeline {

/// "push: no room within 50 ms: <why>". The time is data: who waits in slices tells of the whole.
template <typename... Args>
Error timed_out(std::string what, std::chrono::nanoseconds timeout, const Args&... why) {
  return make_error(Code::kDeadlineExceeded, why...)
      .within({Where::kTimeoutNs, timeout.count()})
      .within(std::move(what));
}

/// On the clock of now_ns(). kNoWait reads no clock.
inline std::int64_t deadline_of(std::chrono::nanoseconds timeout) {
  return timeout <= std::chrono::nanoseconds::zero() ? 0 : deadline_after(timeout);
}

/// Waits until `holds`, at most to the deadline, which is of now_ns() and may be kNever.
/// \returns whether it holds.
template <typename Predicate>
bool wait_until(std::condition_variable& told, std::unique_lock<std::mutex>& lock,
                std::int64_t deadline, const Predicate& holds) {
  if (deadline != kNever) {
    const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(deadline)};
    return told.wait_until(lock, until, holds);
  }
  told.wait(lock, holds);
  return true;
}

/// How long a caller waits, and who is asked meanwhile whether it still should.
class Patience {
 public:
  /// `asked`: is not copied; empty: nobody.
  Patience(std::int64_t deadline, const std::function<bool()>& asked)
      : deadline_(deadline), asked_(asked ? &asked : nullptr) {}

  [[nodiscard]] std::int64_t deadline() const { return deadline_; }
  [[nodiscard]] bool given_up() const { return given_up_; }
  /// When over() is to be asked again.
  [[nodiscard]] std::int64_t next_look() const { return asked_ == nullptr ? deadline_ : soon(); }
  /// As next_look(), for who has something of its own to look at.
  [[nodiscard]] std::int64_t soon() const { return std::min(deadline_, now_ns() + kBetweenLooks); }
  bool over() {
    if (deadline_ == 0) return true;
    if (deadline_ == kNever && asked_ == nullptr) return false;
    const std::int64_t now = now_ns();
    if (now >= deadline_ || given_up_) return true;
    if (asked_ == nullptr || now < next_question_) return false;
    next_question_ = now + kBetweenLooks;
    given_up_ = !(*asked_)();
    return given_up_;
  }
  /// The last question of one that has waited, before what it waited for is taken.
  bool over_at_last() {
    if (next_question_ > 0 && !given_up_) given_up_ = !(*asked_)();
    return given_up_;
  }

 private:
  static constexpr std::int64_t kBetweenLooks = 50'000'000;

  const std::int64_t deadline_;
  const std::function<bool()>* const asked_;
  std::int64_t next_question_ = 0;
  bool given_up_ = false;
};

}  // namespace penstock::pipeline
