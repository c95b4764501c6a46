// Question: a call that its thread waits for, and that another thread may break off.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include "penstock/grpc/client/peer.h"

namespace penstock::grpc {

inline constexpr auto kFirstTry = std::chrono::milliseconds(100);  ///< After a loss.
inline constexpr auto kLongestTry = std::chrono::seconds(1);       ///< Between two later ones.
inline constexpr auto kConnects = std::chrono::seconds(5);         ///< At the start.

inline std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

/// Of a time of the steady clock.
inline std::chrono::system_clock::time_point system_time(std::int64_t deadline_ns) {
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(
             std::chrono::nanoseconds(deadline_ns - now_ns()));
}

/// One at a time.
class Question {
 public:
  /// `ask(context)` makes the call of a generated stub.
  template <typename Ask>
  ::grpc::Status run(const Connection& connection, std::chrono::nanoseconds patience, Ask ask) {
    ::grpc::ClientContext context;
    connection.introduce(context);
    context.set_deadline(system_time(now_ns() + patience.count()));
    {
      const std::scoped_lock lock(mutex_);
      if (broken_) return ::grpc::Status::CANCELLED;
      context_ = &context;
    }
    const ::grpc::Status status = ask(context);
    const std::scoped_lock lock(mutex_);
    context_ = nullptr;
    return status;
  }
  /// The one that is asked, and all that follow.
  void break_off() {
    const std::scoped_lock lock(mutex_);
    broken_ = true;
    if (context_ != nullptr) context_->TryCancel();
  }

 private:
  std::mutex mutex_;  // Guards the two below.
  ::grpc::ClientContext* context_ = nullptr;
  bool broken_ = false;
};

}  // namespace penstock::grpc
