// Requests of a model's caller as messages, and the answers to them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <grpcpp/support/byte_buffer.h>

#include "penstock/base/result.h"
#include "penstock/grpc/client/raw_message.h"
#include "penstock/grpc/client/remote_model.h"
#include "penstock/tensor/tensor.h"

namespace penstock::grpc {

/// A ModelInferRequest over the inputs' own memory, of which `ports` tells the names.
/// \error kInvalidArgument  a type that the protocol does not carry; kResourceExhausted  too large.
Result<::grpc::ByteBuffer> write_request(const std::string& model, const std::string& version,
                                         std::span<const ModelPort> ports,
                                         std::span<const Tensor* const> inputs);

/// \error kInvalidArgument  such a value is not of the port's type.
Status check_value(const ModelPort& port, DType dtype, const std::vector<std::int64_t>& dims);

/// Writes entry `at` of the message to the output, if it is of the port's type. As
/// InferCall::take() says. \error kInvalidArgument  it is not.
Status read_value(const ModelPort& port, DType dtype, const std::vector<std::int64_t>& dims,
                  const RawMessage& raw, std::size_t at, Tensor& output,
                  std::uint64_t& allocations);

/// A ModelInferResponse. As InferCall::take() says. \error kDataLoss
Status read_answer(const ::grpc::ByteBuffer& answer, std::span<const ModelPort> ports,
                   std::span<Tensor* const> outputs, std::uint64_t& allocations);

}  // namespace penstock::grpc
