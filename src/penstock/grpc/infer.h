// ModelInfer: one request, one reply.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "penstock/serve/access.h"
#include "penstock/serve/access_log.h"
#include "penstock/serve/server.h"

namespace penstock::grpc {

/// The request as the wire has it, with what the call itself says.
/// \error kPermissionDenied  a tensor lies in a region, and its client may not share memory.
Result<serve::Request> read_call(const serve::Access& access,
                                 const ::grpc::CallbackServerContext& context,
                                 const ::grpc::ByteBuffer& message, std::string& id);

::grpc::ServerUnaryReactor* infer(serve::Server& server, const serve::Access& access,
                                  serve::AccessLog* log,
                                  const ::grpc::CallbackServerContext& context,
                                  const ::grpc::ByteBuffer& message, ::grpc::ByteBuffer& reply);

}  // namespace penstock::grpc
