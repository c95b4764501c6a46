// LastingCalls: the calls that last as long as their clients like.
// The server ends them before it ends itself.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <grpcpp/support/status.h>

namespace penstock::grpc {

/// A call that lasts as long as its client likes, and ends before the server does.
class LastingCall {
 public:
  virtual ~LastingCall() = default;
  /// It ends with this status, unless it has ended.
  virtual void leave(const ::grpc::Status& status) = 0;
};

/// \threads  all functions may be called from any thread.
class LastingCalls {
 public:
  /// One that comes too late is told to leave at once.
  void add(const std::shared_ptr<LastingCall>& call);
  /// From now on none lasts.
  void end();
  /// After end(): whether each of them has heard so.
  [[nodiscard]] bool all_gone();

 private:
  std::mutex mutex_;  // Guards all below.
  std::vector<std::weak_ptr<LastingCall>> calls_;
  bool ended_ = false;
};

}  // namespace penstock::grpc
