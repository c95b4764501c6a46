// ModelStreamInfer: many requests of one client, answered in their order.
#pragma once

#include <cstddef>

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "penstock/grpc/lasting_calls.h"
#include "penstock/serve/access.h"
#include "penstock/serve/access_log.h"
#include "penstock/serve/server.h"

namespace penstock::grpc {

/// `most`: requests in progress, after which the client is not read until one is answered. It is
/// one of `lasting`: told to leave, it reads no more, and ends when all it has read is answered.
::grpc::ServerBidiReactor<::grpc::ByteBuffer, ::grpc::ByteBuffer>* infer_stream(
    serve::Server& server, const serve::Access& access, serve::AccessLog* log,
    const ::grpc::CallbackServerContext& context, std::size_t most, LastingCalls& lasting);

}  // namespace penstock::grpc
