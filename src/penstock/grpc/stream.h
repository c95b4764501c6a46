// ModelStreamInfer: many requests of one client, answered in their order.
#pragma once

#include <cstddef>

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "penstock/serve/access.h"
#include "penstock/serve/access_log.h"
#include "penstock/serve/server.h"

namespace penstock::grpc {

/// `most`: requests in progress, after which the client is not read until one is answered.
::grpc::ServerBidiReactor<::grpc::ByteBuffer, ::grpc::ByteBuffer>* infer_stream(
    serve::Server& server, const serve::Access& access, serve::AccessLog* log,
    const ::grpc::CallbackServerContext& context, std::size_t most);

}  // namespace penstock::grpc
