// Who calls, and until when he waits.
#pragma once

#include <chrono>
#include <cstdint>
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

/// The right of who keeps a stream open. \threads  one at a time.
class StreamRight {
 public:
  StreamRight(const serve::Access& access, serve::Right right,
              const ::grpc::CallbackServerContext& context)
      : access_(access), right_(right), context_(context) {}

  /// With each message: by the tokens as they are now. \returns as check_caller().
  Result<std::string> check();

 private:
  const serve::Access& access_;
  const serve::Right right_;
  const ::grpc::CallbackServerContext& context_;
  std::uint64_t generation_ = 0;     // When it was asked for last.
  std::optional<std::string> name_;  // What was told then.
};

/// The call's deadline, if it has one.
std::optional<std::chrono::steady_clock::time_point> deadline_of(
    const ::grpc::CallbackServerContext& context);

/// Of the metadata that the client sent; empty where it sent none of that name.
std::string header_of(const ::grpc::CallbackServerContext& context, const std::string& name);

}  // namespace penstock::grpc
