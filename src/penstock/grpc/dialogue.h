// Dialogue: a stream of requests and answers, as one thing that begins, goes on and ends once.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "penstock/grpc/lasting_calls.h"

namespace penstock::grpc {

/// Lives until gRPC is done with it, and for as long as others hold it. Answers go out in the order
/// of send(). \threads  read(), send() and end() may be called from any thread.
template <typename Request, typename Response>
class Dialogue : public ::grpc::ServerBidiReactor<Request, Response>,
                 public LastingCall,
                 public std::enable_shared_from_this<Dialogue<Request, Response>> {
 public:
  /// Before anything else. \returns what gRPC is given.
  static Dialogue* begin(const std::shared_ptr<Dialogue>& made) {
    made->self_ = made;
    return made.get();
  }

  void leave(const ::grpc::Status& status) override { end(status); }

  void OnReadDone(bool ok) final {
    if (ok) return received(request_);
    closed_ = true;
    closed();
  }

  void OnWriteDone(bool ok) final {
    {
      const std::scoped_lock lock(mutex_);
      queue_.pop_front();
      writing_ = false;
      if (!ok && !end_) end_ = ::grpc::Status::CANCELLED;
    }
    if (!ok) broken();
    sent();
    go_on();
  }

  void OnCancel() final {
    cancelled_ = true;
    end(::grpc::Status::CANCELLED);
    broken();
  }

  void OnDone() final {
    done(closed_ && !cancelled_);
    self_.reset();
  }

 protected:
  /// How it ended, once it has; OK before.
  [[nodiscard]] ::grpc::Status ended() {
    const std::scoped_lock lock(mutex_);
    return end_.value_or(::grpc::Status::OK);
  }

  /// One more request is wanted: then received() is called with it, or closed().
  void read() {
    const auto alive = this->shared_from_this();
    const std::scoped_lock lock(mutex_);
    if (!finished_ && !end_) this->StartRead(&request_);
  }

  /// False: nobody reads it any more.
  bool send(Response response) {
    {
      const std::scoped_lock lock(mutex_);
      if (end_) return false;
      queue_.push_back(std::move(response));
    }
    go_on();
    return true;
  }

  /// The call ends when the answer that is being written is; those behind are dropped.
  void end(const ::grpc::Status& status) {
    {
      const std::scoped_lock lock(mutex_);
      if (!end_) end_ = status;
    }
    go_on();
  }

  virtual void received(Request& request) = 0;
  virtual void closed() = 0;  ///< The client sends no more, or is gone.
  virtual void sent() {}      ///< An answer has gone out, or is lost.
  virtual void broken() {}    ///< The client is gone, or its stream.
  /// `in_order`: the client closed its side, and was told the end.
  virtual void done([[maybe_unused]] bool in_order) {}

 private:
  /// Whatever can be done now. Under the lock, so that nothing follows the end; the object stays
  /// until then, though gRPC may be done with it before.
  void go_on() {
    const auto alive = this->shared_from_this();
    const std::scoped_lock lock(mutex_);
    if (finished_ || writing_) return;
    if (end_) {
      finished_ = true;
      queue_.clear();
      this->Finish(*end_);
    } else if (!queue_.empty()) {
      writing_ = true;
      this->StartWrite(&queue_.front());
    }
  }

  std::shared_ptr<Dialogue> self_;  // Until OnDone().
  Request request_;
  std::atomic<bool> closed_ = false, cancelled_ = false;

  std::mutex mutex_;            // Guards all below.
  std::deque<Response> queue_;  // The first is being written, where one is.
  bool writing_ = false, finished_ = false;
  std::optional<::grpc::Status> end_;
};

}  // namespace penstock::grpc
