// Held: a tensor that stays on a worker of ours, and the ticket that names it there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock::grpc {

class InferCall;

/// The last who lets go of it frees the tensor there. Any thread.
class Held {
 public:
  virtual ~Held() = default;
  [[nodiscard]] virtual const std::string& address() const = 0;  ///< Of the worker that has it.
  [[nodiscard]] virtual const std::string& ticket() const = 0;
  [[nodiscard]] virtual const std::vector<std::int64_t>& dims() const = 0;
  /// Its worker is, or has another session now, or lose() was called.
  [[nodiscard]] virtual bool is_lost() const = 0;
  virtual void lose() const = 0;  ///< Who was to fetch it there cannot.
  /// A call on another worker that pulls it: told where this one's worker is lost meanwhile.
  virtual void read_by(const std::shared_ptr<InferCall>& call) const = 0;
  /// Brings the tensor here, into `to`, which has room and its shape. Blocks until it is there, or
  /// never will be: the worker is lost, or sends nothing for as long as one is patient with it.
  /// \error kUnavailable; kCancelled  the deadline of its frame has passed.
  virtual Status read(Tensor& to) const = 0;
};

/// What stands in the memory of tensors on workers for one of them: one of both, or nothing yet.
struct Handle {
  std::shared_ptr<const Held> far;
  Tensor here;  ///< It lies in the host's memory, and goes along when it is read.
};

}  // namespace penstock::grpc
