// Reads and checks parameters, inputs and outputs of a ModelInferRequest; writes its response.
#include "penstock/grpc/wire.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/grpc/client/answer.h"
#include "penstock/grpc/client/contents.h"
#include "penstock/grpc/client/raw_message.h"
#include "penstock/grpc/inference.pb.h"
#include "penstock/serve/told_outside.h"
#include "penstock/tensor/datatype.h"

namespace penstock::grpc {
namespace {

using Parameters = google::protobuf::Map<std::string, inference::InferParameter>;
using inference::InferParameter;

constexpr int kRawInputs = inference::ModelInferRequest::kRawInputContentsFieldNumber;
constexpr int kRawOutputs = inference::ModelInferResponse::kRawOutputContentsFieldNumber;
constexpr const char* kRequest = "ModelInferRequest";
constexpr int kInferResponse = inference::ModelStreamInferResponse::kInferResponseFieldNumber;

// ------------------------------------------------------------------------------- parameters

Error wrong_kind(const std::string& name, const char* expected) {
  return invalid_argument("parameter '", name.substr(0, 64), "': expected ", expected);
}

Result<std::uint64_t> number_of(const std::string& name, const InferParameter& parameter) {
  using Kind = InferParameter;
  if (parameter.parameter_choice_case() == Kind::kUint64Param) return parameter.uint64_param();
  if (parameter.parameter_choice_case() == Kind::kInt64Param && parameter.int64_param() >= 0) {
    return static_cast<std::uint64_t>(parameter.int64_param());
  }
  return wrong_kind(name, "a whole number of 0 or more");
}

Result<bool> flag_of(const std::string& name, const InferParameter& parameter) {
  if (parameter.has_bool_param()) return parameter.bool_param();
  return wrong_kind(name, "true or false");
}

std::optional<serve::Parameter> custom_of(const InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case InferParameter::kBoolParam:
      return parameter.bool_param();
    case InferParameter::kInt64Param:
      return parameter.int64_param();
    case InferParameter::kUint64Param:
      return parameter.uint64_param();
    case InferParameter::kDoubleParam:
      return parameter.double_param();
    case InferParameter::kStringParam:
      return parameter.string_param();
    case InferParameter::PARAMETER_CHOICE_NOT_SET:
      break;
  }
  return std::nullopt;
}

/// Nothing where the sequence is none: 0 or "".
Result<std::optional<serve::SequenceId>> sequence_id(const InferParameter& parameter) {
  std::optional<serve::SequenceId> id;
  if (parameter.has_string_param()) {
    if (!parameter.string_param().empty()) id = parameter.string_param();
    return id;
  }
  PENSTOCK_TRY(const auto number, number_of("sequence_id", parameter));
  if (number != 0) id = number;
  return id;
}

struct SequenceParameters {
  std::optional<serve::SequenceId> id;
  bool start = false, end = false;
};

Status read_parameter(const std::string& name, const InferParameter& parameter,
                      SequenceParameters& sequence, serve::Request& request) {
  if (name == "sequence_id") {
    PENSTOCK_TRY(sequence.id, sequence_id(parameter));
  } else if (name == "sequence_start") {
    PENSTOCK_TRY(sequence.start, flag_of(name, parameter));
  } else if (name == "sequence_end") {
    PENSTOCK_TRY(sequence.end, flag_of(name, parameter));
  } else if (name == "priority") {
    PENSTOCK_TRY(const auto level, number_of(name, parameter));
    if (level == 1) request.priority = pipeline::Priority::kHigh;
  } else if (name == "timeout") {
    PENSTOCK_TRY(const auto microseconds, number_of(name, parameter));
    request.set_timeout(microseconds);
  } else if (name == "traceparent") {
    if (!parameter.has_string_param()) return wrong_kind(name, "a string");
    request.traceparent = parameter.string_param();
  } else if (name == "triton_enable_empty_final_response") {
    PENSTOCK_CHECK_OK(flag_of(name, parameter));
  } else if (name.starts_with("triton_")) {
    return invalid_argument("parameter '", name.substr(0, 64),
                            "': names that begin so are reserved");
  } else if (auto value = custom_of(parameter)) {
    request.parameters.emplace(name, *std::move(value));
  }
  return {};
}

Status read_parameters(const Parameters& parameters, serve::Request& request) {
  SequenceParameters sequence;
  for (const auto& [name, parameter] : parameters) {
    PENSTOCK_CHECK_OK(read_parameter(name, parameter, sequence, request));
  }
  if (sequence.id) {
    request.sequence = serve::Sequence{*std::move(sequence.id), sequence.start, sequence.end};
  }
  return {};
}

/// Nothing where the tensor lies in no region.
Result<std::optional<serve::RegionPlace>> read_place(const Parameters& parameters) {
  std::optional<serve::RegionPlace> place;
  const auto region = parameters.find("shared_memory_region");
  if (region == parameters.end()) return place;
  const auto size = parameters.find("shared_memory_byte_size");
  if (!region->second.has_string_param()) return wrong_kind(region->first, "a string");
  if (size == parameters.end()) {
    return invalid_argument(
        "'shared_memory_region' and 'shared_memory_byte_size' must be given together");
  }
  place.emplace().region = region->second.string_param();
  PENSTOCK_TRY(place->byte_size, number_of(size->first, size->second));
  const auto offset = parameters.find("shared_memory_offset");
  if (offset != parameters.end()) {
    PENSTOCK_TRY(place->offset, number_of(offset->first, offset->second));
  }
  return place;
}

// --------------------------------------------------------------------------------- contents

using InputTensor = inference::ModelInferRequest::InferInputTensor;

Result<serve::RequestInput> read_input(const InputTensor& message, const std::string& model,
                                       const RawMessage& raw, std::size_t& next_raw) {
  serve::RequestInput input;
  input.name = message.name();
  PENSTOCK_TRY(input.dtype, parse_datatype(message.datatype()));
  input.dims.assign(message.shape().begin(), message.shape().end());
  constexpr std::size_t kMostDims = 64;
  if (input.dims.size() > kMostDims) {
    return invalid_argument("expected a shape of at most ", kMostDims, " sizes, found ",
                            input.dims.size());
  }
  PENSTOCK_CHECK_OK(count_elements(input.dims));
  PENSTOCK_TRY(input.place, read_place(message.parameters()));
  if (message.has_contents() && raw.count() > 0) {
    return invalid_argument(
        "contents field must not be specified when using raw_input_contents for '", input.name,
        "' for model '", model, "'");
  }
  if (input.place && message.has_contents()) {
    return invalid_argument("unexpected 'contents' provided when using shared memory for input '",
                            input.name, "' for model '", model, "'");
  }
  if (input.place) return input;
  if (message.has_contents()) {
    PENSTOCK_TRY(input.value, read_contents(message.contents(), input.dtype, input.dims));
  } else if (next_raw < raw.count()) {
    PENSTOCK_TRY(input.value, read_raw(raw.tensor(next_raw++), input.dtype, input.dims));
  }
  return input;
}

using OutputTensor = inference::ModelInferRequest::InferRequestedOutputTensor;

Result<serve::RequestedOutput> read_output(const OutputTensor& message) {
  serve::RequestedOutput output;
  output.name = message.name();
  PENSTOCK_TRY(output.place, read_place(message.parameters()));
  const auto classes = message.parameters().find("classification");
  if (classes == message.parameters().end()) return output;
  PENSTOCK_TRY(output.classification, number_of(classes->first, classes->second));
  if (output.classification > 0) return output;
  return wrong_kind("classification", "a whole number over 0");
}

Status fill(const inference::ModelInferRequest& message, const RawMessage& raw,
            serve::Request& request) {
  PENSTOCK_CHECK_OK(read_parameters(message.parameters(), request));
  std::size_t next_raw = 0;
  for (const auto& input : message.inputs()) {
    auto read = read_input(input, request.model, raw, next_raw);
    if (!read) return std::move(read).error().within({Where::kInput, input.name()});
    if (read->value.kind() != Tensor::Kind::kNone) ++request.copies;
    request.inputs.push_back(*std::move(read));
  }
  // Of a request without inputs the model says which are missing, or that it reads none.
  if (message.inputs_size() == 0) {
    request.nameless = raw.count();
  } else if (next_raw < raw.count()) {
    return invalid_argument("expected ", next_raw,
                            " of 'raw_input_contents', one for each input "
                            "that is not in shared memory, found ",
                            raw.count());
  }
  for (const auto& output : message.outputs()) {
    auto read = read_output(output);
    if (!read) return std::move(read).error().within({Where::kOutput, output.name()});
    request.outputs.push_back(*std::move(read));
  }
  return {};
}

// ------------------------------------------------------------------------------------ replies

using ReplyTensor = inference::ModelInferResponse::InferOutputTensor;

void describe(const serve::ReplyOutput& output, ReplyTensor& message) {
  message.set_name(output.name);
  message.set_datatype(std::string(datatype_of(output.value.dtype())));
  for (const auto dim : output.value.dims()) message.add_shape(dim);
  if (!output.place) return;
  auto& parameters = *message.mutable_parameters();
  parameters["shared_memory_region"].set_string_param(output.place->region);
  parameters["shared_memory_byte_size"].set_int64_param(
      static_cast<std::int64_t>(output.place->byte_size));
  if (output.place->offset == 0) return;
  parameters["shared_memory_offset"].set_int64_param(
      static_cast<std::int64_t>(output.place->offset));
}

inference::ModelInferResponse describe(const serve::Reply& reply) {
  inference::ModelInferResponse message;
  message.set_model_name(reply.model);
  message.set_model_version(reply.version);
  message.set_id(reply.id);
  for (const auto& output : reply.outputs) describe(output, *message.add_outputs());
  return message;
}

/// Strings as the bytes that go out, which keep the reply's charge until they are sent.
Tensor encoded(const Tensor& strings, const std::shared_ptr<serve::ReplyCharge>& charge) {
  struct Encoded {
    std::shared_ptr<serve::ReplyCharge> charge;
    std::string bytes;
  };
  auto made = std::make_shared<Encoded>(Encoded{charge, encode_strings(strings)});
  char* begin = made->bytes.data();
  const auto size = static_cast<std::int64_t>(made->bytes.size());
  return Tensor::view(DType::kU8, {size}, begin, std::move(made));
}

/// The message, behind which its tensors lie in memory of their own.
Result<RawWriter> write(serve::Reply reply, const inference::ModelInferResponse& message) {
  std::string head;
  if (!message.SerializeToString(&head)) return internal_error("the reply cannot be written");
  RawWriter writer(std::move(head), kRawOutputs);
  for (auto& output : reply.outputs) {
    if (output.place) {
      writer.add_nothing();
    } else if (output.value.kind() == Tensor::Kind::kStrings) {
      writer.add(encoded(output.value, reply.charge));
    } else {
      writer.add(std::move(output.value));
    }
  }
  return writer;
}

/// gRPC's own limit, in Triton's words.
Error too_large(Error error) {
  error.code = Code::kInvalidArgument;
  return std::move(error).adding("; ask for fewer outputs, or have them in shared memory");
}

}  // namespace

Result<serve::Request> read_request(const ::grpc::ByteBuffer& message, std::string& id) {
  serve::Request request;
  PENSTOCK_TRY(const auto parts, RawMessage::read(message, kRawInputs, kRequest));
  inference::ModelInferRequest head;
  if (!head.ParseFromString(parts.head())) {
    return invalid_argument("the bytes are no ", kRequest);
  }
  request.model = head.model_name();
  request.version = head.model_version();
  request.id = id = head.id();
  Status filled = fill(head, parts, request);
  if (filled) return request;
  if (request.id.empty()) return std::move(filled).error();
  return std::move(filled).error().within(concat("[request id: ", request.id, "]"));
}

Result<::grpc::ByteBuffer> write_reply(serve::Reply reply) {
  const auto message = describe(reply);
  PENSTOCK_TRY(auto writer, write(std::move(reply), message));
  auto written = std::move(writer).finish();
  if (!written) return too_large(std::move(written).error());
  return written;
}

Result<::grpc::ByteBuffer> write_stream_reply(serve::Reply reply) {
  auto message = describe(reply);
  (*message.mutable_parameters())["triton_final_response"].set_bool_param(true);
  PENSTOCK_TRY(auto writer, write(std::move(reply), message));
  auto written = std::move(writer).finish_within(kInferResponse);
  if (!written) return too_large(std::move(written).error());
  return written;
}

::grpc::ByteBuffer write_stream_error(const Error& error, const std::string& id) {
  inference::ModelStreamInferResponse message;
  message.set_error_message(serve::told_outside(error));
  message.mutable_infer_response()->set_id(id);
  auto& parameters = *message.mutable_infer_response()->mutable_parameters();
  parameters["triton_final_response"].set_bool_param(true);
  parameters[kErrorCode].set_int64_param(static_cast<int>(error.code));
  const ::grpc::Slice slice(message.SerializeAsString());
  return {&slice, 1};
}

}  // namespace penstock::grpc
