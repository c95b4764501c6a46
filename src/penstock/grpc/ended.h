// ended_by: how a call of gRPC ends, whatever memory is refused.
#pragma once

#include <new>

#include <grpcpp/support/status.h>

namespace penstock::grpc {

/// What `tell` makes of the end. Where that finds no memory, RESOURCE_EXHAUSTED without words: gRPC
/// waits for the end of every call, and so does its client.
template <typename Tell>
::grpc::Status ended_by(Tell tell) noexcept {
  try {
    return tell();
  } catch (const std::bad_alloc&) {
    return {::grpc::StatusCode::RESOURCE_EXHAUSTED, ""};
  }
}

}  // namespace penstock::grpc
