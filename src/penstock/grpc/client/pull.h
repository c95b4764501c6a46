// Pull: a tensor that stays on a worker (worker.proto), on its way here.
// For callers, and for other workers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/grpc/client/peer.h"
#include "penstock/tensor/tensor.h"

namespace penstock::grpc {

struct PullOrder {
  std::string ticket;
  DType dtype = DType::kUndefined;
  std::vector<std::int64_t> dims;
  std::optional<std::chrono::steady_clock::time_point> deadline;  ///< 30 s at most.
  Tensor into;  ///< Where it has room, the bytes are written there; kNone: to memory of their own.
};

class Pull {
 public:
  virtual ~Pull() = default;
  virtual void cancel() = 0;                               ///< Any thread, as the next.
  [[nodiscard]] virtual std::uint64_t pieces() const = 0;  ///< That have come so far.
};

/// `done` is called once, by any thread, also within the call. It gets kInvalidArgument where the
/// tensor is not of the type and shape that were expected, kNotFound where there is no such ticket,
/// and kUnavailable where the worker cannot be reached.
std::shared_ptr<Pull> start_pull(std::shared_ptr<const Connection> connection, std::string address,
                                 PullOrder order, std::function<void(Result<Tensor>)> done);

}  // namespace penstock::grpc
