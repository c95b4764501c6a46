// Errors as gRPC has them.
#pragma once

#include <grpcpp/support/status.h>

#include "penstock/base/result.h"
#include "penstock/serve/told_outside.h"

namespace penstock::grpc {

/// Codes have gRPC's numbers.
inline ::grpc::Status to_status(const Error& error) {
  return {static_cast<::grpc::StatusCode>(error.code), serve::told_outside(error)};
}

inline ::grpc::Status to_status(const Status& status) {
  return status ? ::grpc::Status::OK : to_status(status.error());
}

}  // namespace penstock::grpc
