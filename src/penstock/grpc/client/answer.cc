// Writes a ModelInferRequest; checks each output's type, shape and size and copies it to its place.
#include "penstock/grpc/client/answer.h"

#include <algorithm>
#include <utility>

#include "penstock/base/words.h"
#include "penstock/grpc/client/contents.h"
#include "penstock/grpc/client/peer.h"
#include "penstock/grpc/client/raw_message.h"
#include "penstock/tensor/datatype.h"

namespace penstock::grpc {
namespace {

using OutputTensor = inference::ModelInferResponse::InferOutputTensor;

Error wrong(Error error) {
  error.code = Code::kDataLoss;
  return std::move(error).within("the answer");
}

/// Where the output is to be written; \returns whether it had to be made.
bool make_room(Tensor& output, DType dtype, const std::vector<std::int64_t>& dims) {
  if (output.kind() == Tensor::Kind::kDense && output.dtype() == dtype && output.set_dims(dims)) {
    return false;
  }
  output = Tensor::allocate(dtype, dims);
  return true;
}

bool is_of(const ModelPort& port, DType dtype, const std::vector<std::int64_t>& dims) {
  if (dtype != port.type.dtype) return false;
  return !port.type.ranked ||
         std::ranges::equal(dims, port.type.dims, [](auto size, const Dim& dim) {
           return !dim.fixed() || dim.size == size;
         });
}

}  // namespace

Status check_value(const ModelPort& port, DType dtype, const std::vector<std::int64_t>& dims) {
  if (is_of(port, dtype, dims)) return {};
  return invalid_argument("expected ", port.type, ", found ", Type::tensor(dtype, std::span(dims)));
}

Status read_value(const ModelPort& port, DType dtype, const std::vector<std::int64_t>& dims,
                  const RawMessage& raw, std::size_t at, Tensor& output,
                  std::uint64_t& allocations) {
  PENSTOCK_CHECK_OK(check_value(port, dtype, dims));
  if (at >= raw.count()) return invalid_argument("it holds no values");
  if (dtype == DType::kString) {
    PENSTOCK_TRY(output, read_raw(raw.tensor(at), dtype, dims));
    allocations += 1;
    return {};
  }
  PENSTOCK_TRY(const std::size_t expected, count_bytes(dtype, dims));
  if (raw.bytes(at) != expected) {
    return invalid_argument("expected ", counted(expected, "byte"), " for ",
                            Type::tensor(dtype, std::span(dims)), ", found ", raw.bytes(at));
  }
  allocations += make_room(output, dtype, dims) ? 1 : 0;
  raw.copy(at, output.data());
  return {};
}

namespace {

Status read_output(const OutputTensor& message, const ModelPort& port, const RawMessage& raw,
                   std::size_t at, Tensor& output, std::uint64_t& allocations) {
  PENSTOCK_TRY(const DType dtype, parse_datatype(message.datatype()));
  const std::vector<std::int64_t> dims(message.shape().begin(), message.shape().end());
  PENSTOCK_CHECK_OK(count_elements(dims));
  if (raw.count() > 0 || !message.has_contents()) {
    return read_value(port, dtype, dims, raw, at, output, allocations);
  }
  PENSTOCK_CHECK_OK(check_value(port, dtype, dims));
  PENSTOCK_TRY(output, read_contents(message.contents(), dtype, dims));
  allocations += 1;
  return {};
}

/// Nobody sends longer ones.
constexpr std::chrono::microseconds kLongestTimeout = std::chrono::hours(24 * 365);

inference::ModelInferRequest message_of(const RequestHead& head) {
  inference::ModelInferRequest message;
  message.set_model_name(head.model);
  message.set_model_version(head.version);
  message.set_id(head.id);
  auto& parameters = *message.mutable_parameters();
  if (head.timeout && *head.timeout < kLongestTimeout) {
    parameters["timeout"].set_int64_param(std::max<std::int64_t>(head.timeout->count(), 1));
  }
  if (!head.traceparent.empty()) parameters["traceparent"].set_string_param(head.traceparent);
  return message;
}

/// Servers of ours tell the code beside the sentence; others say no more than that.
Error error_of(const inference::ModelStreamInferResponse& told,
               const inference::ModelInferResponse& response) {
  const auto found = response.parameters().find(kErrorCode);
  const std::int64_t number =
      found == response.parameters().end() ? 0 : found->second.int64_param();
  const bool is_one = number >= static_cast<int>(Code::kCancelled) &&
                      number <= static_cast<int>(Code::kUnauthenticated);
  return make_error(is_one ? static_cast<Code>(number) : Code::kUnknown,
                    shortened(told.error_message()));
}

}  // namespace

Result<::grpc::ByteBuffer> write_request(const RequestHead& head, std::span<const ModelPort> ports,
                                         std::span<const Tensor* const> inputs) {
  auto message = message_of(head);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto& input = *message.add_inputs();
    const auto datatype = datatype_of(inputs[i]->dtype());
    if (datatype.empty()) {
      return invalid_argument("the Open Inference Protocol has no name for ", inputs[i]->type())
          .within({Where::kInput, ports[i].name});
    }
    input.set_name(ports[i].name);
    input.set_datatype(std::string(datatype));
    for (const auto size : inputs[i]->dims()) input.add_shape(size);
  }
  RawWriter writer(message.SerializeAsString(),
                   inference::ModelInferRequest::kRawInputContentsFieldNumber);
  for (const Tensor* input : inputs) writer.add(*input);
  return std::move(writer).finish();
}

Result<Answer> parse_answer(const ::grpc::ByteBuffer& message) {
  constexpr const char* kAnswer = "ModelInferResponse";
  auto raw = RawMessage::read(message, inference::ModelInferResponse::kRawOutputContentsFieldNumber,
                              kAnswer);
  if (!raw) return wrong(std::move(raw).error());
  Answer answer{{}, *std::move(raw)};
  if (answer.head.ParseFromString(answer.raw.head())) return answer;
  return wrong(invalid_argument("the bytes are no ", kAnswer));
}

Result<StreamAnswer> parse_stream_answer(const ::grpc::ByteBuffer& message) {
  constexpr const char* kAnswer = "ModelStreamInferResponse";
  const auto outer = RawMessage::read(
      message, inference::ModelStreamInferResponse::kInferResponseFieldNumber, kAnswer);
  if (!outer) return wrong(outer.error());
  inference::ModelStreamInferResponse told;
  if (!told.ParseFromString(outer->head()) || outer->count() > 1) {
    return wrong(invalid_argument("the bytes are no ", kAnswer));
  }
  if (outer->count() == 0) {
    return StreamAnswer{{}, make_error(Code::kUnknown, shortened(told.error_message()))};
  }
  PENSTOCK_TRY(auto answer, parse_answer(outer->part(0)));
  std::string id = answer.head.id();
  if (told.error_message().empty()) return StreamAnswer{std::move(id), std::move(answer)};
  return StreamAnswer{std::move(id), error_of(told, answer.head)};
}

Status read_answer(const Answer& answer, std::span<const ModelPort> ports,
                   std::span<Tensor* const> outputs, std::uint64_t& allocations) {
  std::vector<bool> given(ports.size());
  for (int i = 0; i < answer.head.outputs_size(); ++i) {
    const auto& output = answer.head.outputs(i);
    const auto port = std::ranges::find(ports, output.name(), &ModelPort::name);
    if (port == ports.end()) continue;  // More than its metadata said.
    const auto at = static_cast<std::size_t>(port - ports.begin());
    Status read = read_output(output, *port, answer.raw, static_cast<std::size_t>(i), *outputs[at],
                              allocations);
    if (!read) return wrong(std::move(read).error().within({Where::kOutput, port->name}));
    given[at] = true;
  }
  const auto missing = std::ranges::find(given, false);
  if (missing == given.end()) return {};
  const auto& port = ports[static_cast<std::size_t>(missing - given.begin())];
  return wrong(invalid_argument("it is missing").within({Where::kOutput, port.name}));
}

}  // namespace penstock::grpc
