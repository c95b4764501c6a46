// Line: one stream of calls to a worker's stages (worker.proto, Run).
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <grpcpp/completion_queue.h>

#include "penstock/base/result.h"
#include "penstock/grpc/client/peer.h"
#include "penstock/grpc/client/peer_clock.h"
#include "penstock/grpc/client/remote_model.h"

namespace penstock::grpc {

class HeldSource;

/// What a line belongs to.
struct LineOptions {
  std::string address, session;
  std::shared_ptr<HeldSource> source = {};      ///< Of what stays there.
  std::shared_ptr<const PeerClock> clock = {};  ///< The worker's.
};

class Line {
 public:
  /// Blocks until the worker has answered. What happens on it comes by `queue`, which a thread
  /// gives to dispatch_events().
  static Result<std::shared_ptr<Line>> open(const Connection& connection, LineOptions options,
                                            ::grpc::CompletionQueue& queue);
  virtual ~Line() = default;

  /// Begins a call of a stage whose outputs are of `ports`, which outlive it. Any thread.
  /// \error kUnavailable  the stream has ended.
  virtual Result<std::shared_ptr<InferCall>> call(std::uint64_t stage,
                                                  std::span<const Tensor* const> inputs,
                                                  std::span<const ModelPort> ports,
                                                  const InferOptions& options) = 0;
  /// The worker may free these. Any thread.
  virtual void release(const std::set<std::string>& tickets) = 0;
  /// That the worker wants in progress here, at most.
  [[nodiscard]] virtual int most_calls() const = 0;
  [[nodiscard]] virtual std::int64_t heard_ns() const = 0;  ///< When an answer came last.
  /// Why the stream has ended, if it has.
  virtual std::optional<Error> broken() = 0;
  [[nodiscard]] virtual bool is_broken() const = 0;  ///< Before its calls end with that.
  /// Calls in flight end with the error.
  virtual void break_off(const Error& why) = 0;
  virtual void wait_until_over() = 0;  ///< \pre  break_off()
};

}  // namespace penstock::grpc
