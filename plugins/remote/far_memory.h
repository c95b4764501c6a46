// The memory of all workers of ours: what one of them makes, each may read.
#pragma once

#include <memory>

#include "penstock/backend/backend.h"
#include "penstock/grpc/client/held.h"

namespace penstock::remote {

/// A tensor lies on whichever worker made it. Here it is a grpc::Handle; the workers fetch it from
/// one another when they compute with it, and only who reads it here brings it here.
std::shared_ptr<backend::Memory> far_memory();

/// \pre  tensor.in_host_memory() is false: it is of far_memory().
inline grpc::Handle& handle_of(Tensor& tensor) {
  return *static_cast<grpc::Handle*>(tensor.data());
}
inline const grpc::Handle& handle_of(const Tensor& tensor) {
  return *static_cast<const grpc::Handle*>(tensor.data());
}

}  // namespace penstock::remote
