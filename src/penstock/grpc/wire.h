// Requests for inference as gRPC's bytes, and replies: without a copy where there need not be one.
#pragma once

#include <string>

#include <grpcpp/support/byte_buffer.h>

#include "penstock/base/result.h"
#include "penstock/serve/request.h"

namespace penstock::grpc {

/// A ModelInferRequest. Bytes of raw tensors are copied once, from the message to where the
/// pipeline reads them. `id`: the client's for the request, also where that makes no sense.
/// \error kInvalidArgument  it is no such message, or makes no sense: says where.
Result<serve::Request> read_request(const ::grpc::ByteBuffer& message, std::string& id);

/// A ModelInferResponse. The message holds the tensors' own memory. \error kInternal
Result<::grpc::ByteBuffer> write_reply(serve::Reply reply);

/// A ModelStreamInferResponse. \error kInternal
Result<::grpc::ByteBuffer> write_stream_reply(serve::Reply reply);
/// The ModelStreamInferResponse of a request that failed.
::grpc::ByteBuffer write_stream_error(const Error& error, const std::string& id);

}  // namespace penstock::grpc
