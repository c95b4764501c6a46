// Errors as gRPC has them.
#pragma once

#include <grpcpp/support/status.h>

#include "penstock/base/result.h"
#include "penstock/serve/told_outside.h"

namespace penstock::grpc {

/// Codes have gRPC's numbers. A message goes as a header of the protocol, which takes no more than
/// a few thousand bytes.
inline ::grpc::Status to_status(const Error& error) {
  constexpr std::size_t kMost = 2000;
  return {static_cast<::grpc::StatusCode>(error.code), serve::told_outside(error).substr(0, kMost)};
}

inline ::grpc::Status to_status(const Status& status) {
  return status ? ::grpc::Status::OK : to_status(status.error());
}

}  // namespace penstock::grpc
