// Requests of a model's caller as messages, and the answers to them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <grpcpp/support/byte_buffer.h>

#include "penstock/base/result.h"
#include "penstock/grpc/client/raw_message.h"
#include "penstock/grpc/client/remote_model.h"
#include "penstock/grpc/inference.pb.h"
#include "penstock/tensor/tensor.h"

namespace penstock::grpc {

/// What a ModelInferRequest says beside its tensors. Empty: not said.
struct RequestHead {
  std::string model, version;
  std::string id = {};
  std::optional<std::chrono::microseconds> timeout = {};
  std::string traceparent = {};
};

/// A ModelInferRequest over the inputs' own memory, of which `ports` tells the names.
/// \error kInvalidArgument  a type that the protocol does not carry; kResourceExhausted  too large.
Result<::grpc::ByteBuffer> write_request(const RequestHead& head, std::span<const ModelPort> ports,
                                         std::span<const Tensor* const> inputs);

/// \error kInvalidArgument  such a value is not of the port's type.
Status check_value(const ModelPort& port, DType dtype, const std::vector<std::int64_t>& dims);

/// Writes entry `at` of the message to the output, if it is of the port's type. As
/// InferCall::take() says. \error kInvalidArgument  it is not.
Status read_value(const ModelPort& port, DType dtype, const std::vector<std::int64_t>& dims,
                  const RawMessage& raw, std::size_t at, Tensor& output,
                  std::uint64_t& allocations);

/// Beside the sentence of a failed request in a stream, which has no status of its own: what
/// servers of ours add to `parameters`, gRPC's number of it.
inline constexpr const char* kErrorCode = "error_code";

/// A ModelInferResponse; the tensors' bytes stay where they are in the message.
struct Answer {
  inference::ModelInferResponse head;
  RawMessage raw;
};

/// \error kDataLoss  it is none.
Result<Answer> parse_answer(const ::grpc::ByteBuffer& message);

/// A ModelStreamInferResponse: how the request of that id ended.
struct StreamAnswer {
  std::string id;
  Result<Answer> outcome;
};
/// \error kDataLoss  it is none.
Result<StreamAnswer> parse_stream_answer(const ::grpc::ByteBuffer& message);

/// Writes its tensors as InferCall::take() says. \error kDataLoss  it is not of the ports.
Status read_answer(const Answer& answer, std::span<const ModelPort> ports,
                   std::span<Tensor* const> outputs, std::uint64_t& allocations);

}  // namespace penstock::grpc
