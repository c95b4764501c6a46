// ServedCall: a call in flight at a server of the Open Inference Protocol, however it is sent.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "penstock/grpc/client/answer.h"
#include "penstock/grpc/client/remote_model.h"

namespace penstock::grpc {

/// Whether the server gave no answer for a reason of its own, and another one may give one.
inline bool is_refusal(const Result<Answer>& outcome) {
  if (outcome) return false;
  const Code code = outcome.error().code;
  return code == Code::kUnavailable || code == Code::kNotFound;
}

class ServedCall : public InferCall {
 public:
  /// `outputs` outlives it; `peer` is the server's address.
  ServedCall(std::string peer, std::span<const ModelPort> outputs, const InferOptions& options)
      : peer_(std::move(peer)),
        outputs_(outputs),
        done_(options.done),
        whom_(options.whom),
        deadline_ns_(options.deadline_ns) {}

  bool wait(std::int64_t until_ns) override;
  Status take(std::span<Tensor* const> outputs, std::uint64_t& allocations) override;

  /// How it ended; what is told after that is nothing. Any thread.
  virtual void end(Result<Answer> outcome);
  [[nodiscard]] bool left() const { return left_; }  ///< By who made it: cancelled.
  [[nodiscard]] std::int64_t deadline_ns() const { return deadline_ns_; }

 protected:
  void was_left() { left_ = true; }
  [[nodiscard]] const std::string& peer() const { return peer_; }

 private:
  [[nodiscard]] Error ended_badly(Error error) const;

  const std::string peer_;
  const std::span<const ModelPort> outputs_;
  void (*const done_)(void*);
  void* const whom_;
  const std::int64_t deadline_ns_;
  std::atomic<bool> left_{false};
  std::mutex mutex_;  // Guards all below.
  std::condition_variable changed_;
  bool ended_ = false;
  Result<Answer> outcome_ = make_error(Code::kInternal, "no answer");
};

}  // namespace penstock::grpc
