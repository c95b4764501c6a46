// Who calls, and until when he waits.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <grpcpp/server_context.h>

#include "penstock/base/result.h"
#include "penstock/serve/access.h"

namespace penstock::grpc {

/// \returns whose right it is. \error as serve::Access::check(); kUnauthenticated also where the
/// caller names himself twice.
Result<std::string> check_caller(const serve::Access& access, serve::Right right,
                                 const ::grpc::CallbackServerContext& context);

/// The call's deadline, if it has one.
std::optional<std::chrono::steady_clock::time_point> deadline_of(
    const ::grpc::CallbackServerContext& context);

/// Of the metadata that the client sent; empty where it sent none of that name.
std::string header_of(const ::grpc::CallbackServerContext& context, const std::string& name);

}  // namespace penstock::grpc
