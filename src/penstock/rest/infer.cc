// Checks a request field by field and reads aligned binary tensors in place; writes the reply.
#include "penstock/rest/infer.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "penstock/base/words.h"
#include "penstock/rest/json.h"
#include "penstock/rest/tensor_json.h"
#include "penstock/serve/reply_budget.h"
#include "penstock/tensor/datatype.h"

namespace penstock::rest {
namespace {

/// The bytes behind the JSON, handed out from their beginning.
class Bytes {
 public:
  Bytes(const http::Body& body, std::size_t begin) : body_(body), at_(begin) {}

  [[nodiscard]] std::size_t left() const { return body_.size - at_; }

  /// The next `size` bytes as a tensor: in place where they are aligned, else a copy.
  Result<Tensor> take(DType dtype, const std::vector<std::int64_t>& dims, std::uint64_t size,
                      std::uint32_t& copies) {
    if (size > left()) {
      return invalid_argument("its 'binary_data_size' is ", size, ", but the body has ",
                              counted(left(), "byte"), " left");
    }
    std::byte* begin = body_.data.get() + at_;
    at_ += size;
    const bool aligned = reinterpret_cast<std::uintptr_t>(begin) % Tensor::kAlignment == 0;
    if (aligned && dtype != DType::kString) {
      PENSTOCK_TRY(const auto expected, count_bytes(dtype, dims));
      if (expected == size) return Tensor::view(dtype, dims, begin, body_.data);
    }
    ++copies;
    return copy_raw(dtype, dims, {begin, size});
  }

 private:
  const http::Body& body_;
  std::size_t at_;
};

Result<serve::Parameter> parameter_of(std::string_view name, const Element& element) {
  using Type = simdjson::dom::element_type;
  switch (element.type()) {
    case Type::BOOL:
      return serve::Parameter(bool(element));
    case Type::INT64:
      return serve::Parameter(std::int64_t(element));
    case Type::UINT64:
      return serve::Parameter(std::uint64_t(element));
    case Type::DOUBLE:
      return serve::Parameter(double(element));
    case Type::STRING:
      return serve::Parameter(std::string(std::string_view(element)));
    default:
      return invalid_argument("parameter '", name,
                              "': expected a string, a number, true or false, found ",
                              kind_of(element));
  }
}

Result<std::optional<serve::SequenceId>> sequence_id(const Object& parameters) {
  std::optional<serve::SequenceId> id;
  Element element;
  if (parameters.at_key("sequence_id").get(element) != simdjson::SUCCESS) return id;
  if (element.is_string()) {
    std::string text(std::string_view{element});
    if (!text.empty()) id = std::move(text);
    return id;
  }
  PENSTOCK_TRY(const auto number, number_field(parameters, "sequence_id"));
  if (number.value_or(0) != 0) id = *number;
  return id;
}

Status read_sequence(const Object& parameters, serve::Request& request) {
  PENSTOCK_TRY(auto id, sequence_id(parameters));
  PENSTOCK_TRY(const auto start, bool_field(parameters, "sequence_start"));
  PENSTOCK_TRY(const auto end, bool_field(parameters, "sequence_end"));
  if (id) {
    request.sequence = serve::Sequence{
        .id = *std::move(id), .start = start.value_or(false), .end = end.value_or(false)};
  }
  return {};
}

constexpr std::array<std::string_view, 6> kKnown = {
    "sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "binary_data_output"};

Status read_parameters(const Object& parameters, InferBody& read) {
  PENSTOCK_CHECK_OK(read_sequence(parameters, read.request));
  PENSTOCK_TRY(const auto priority, number_field(parameters, "priority"));
  if (priority == 1) read.request.priority = pipeline::Priority::kHigh;
  PENSTOCK_TRY(const auto timeout, number_field(parameters, "timeout"));
  read.request.set_timeout(timeout.value_or(0));
  PENSTOCK_TRY(const auto binary, bool_field(parameters, "binary_data_output"));
  read.all_binary = binary.value_or(false);
  for (const auto [name, element] : parameters) {
    if (std::ranges::find(kKnown, name) != kKnown.end() || element.is_null()) continue;
    if (name.starts_with("triton_")) {
      return invalid_argument("parameter '", name.substr(0, 64),
                              "': names that begin so are reserved");
    }
    PENSTOCK_TRY(auto value, parameter_of(name, element));
    read.request.parameters.emplace(name, std::move(value));
  }
  return {};
}

Result<std::optional<serve::RegionPlace>> read_place(const Object& parameters) {
  std::optional<serve::RegionPlace> place;
  PENSTOCK_TRY(auto region, string_field(parameters, "shared_memory_region"));
  PENSTOCK_TRY(const auto size, number_field(parameters, "shared_memory_byte_size"));
  PENSTOCK_TRY(const auto offset, number_field(parameters, "shared_memory_offset"));
  if (region.has_value() != size.has_value()) {
    return invalid_argument(
        "'shared_memory_region' and 'shared_memory_byte_size' must be given together");
  }
  if (region) place = {.region = *region, .offset = offset.value_or(0), .byte_size = *size};
  return place;
}

Result<std::vector<std::int64_t>> read_shape(const Object& object) {
  PENSTOCK_TRY(const auto shape, array_field(object, "shape"));
  if (!shape) return invalid_argument("expected an array 'shape', found none");
  std::vector<std::int64_t> dims;
  for (const Element element : *shape) {
    std::int64_t size = 0;
    if (element.get(size) != simdjson::SUCCESS) {
      return invalid_argument("'shape': expected integers, found ", kind_of(element));
    }
    dims.push_back(size);
  }
  PENSTOCK_CHECK_OK(count_elements(dims));
  return dims;
}

Status read_value(const Object& object, Bytes& bytes, serve::RequestInput& input,
                  std::uint32_t& copies) {
  PENSTOCK_TRY(const auto parameters, object_field(object, "parameters"));
  PENSTOCK_TRY(const auto data, array_field(object, "data"));
  std::optional<std::uint64_t> size;
  if (parameters) {
    PENSTOCK_TRY(input.place, read_place(*parameters));
    PENSTOCK_TRY(size, number_field(*parameters, "binary_data_size"));
  }
  const int ways = (data ? 1 : 0) + (size ? 1 : 0) + (input.place ? 1 : 0);
  if (ways != 1) {
    return invalid_argument(
        "expected one of 'data', the parameter 'binary_data_size', and a shared memory region; "
        "found ",
        ways == 0 ? "none" : "several");
  }
  if (data) {
    PENSTOCK_TRY(input.value, tensor_of(*data, input.dtype, input.dims));
  } else if (size) {
    PENSTOCK_TRY(input.value, bytes.take(input.dtype, input.dims, *size, copies));
  }
  return {};
}

Status read_inputs(const Object& root, Bytes& bytes, serve::Request& request) {
  PENSTOCK_TRY(const auto inputs, array_field(root, "inputs"));
  if (!inputs) return invalid_argument("expected an array 'inputs', found none");
  for (const Element element : *inputs) {
    Object object;
    if (element.get(object) != simdjson::SUCCESS) {
      return invalid_argument("'inputs': expected objects, found ", kind_of(element));
    }
    serve::RequestInput input;
    PENSTOCK_TRY(input.name, needed_string(object, "name"));
    const auto read = [&]() -> Status {
      PENSTOCK_TRY(const auto datatype, needed_string(object, "datatype"));
      PENSTOCK_TRY(input.dtype, parse_datatype(datatype));
      PENSTOCK_TRY(input.dims, read_shape(object));
      return read_value(object, bytes, input, request.copies);
    }();
    if (!read) return Error(read.error()).within({Where::kInput, input.name});
    request.inputs.push_back(std::move(input));
  }
  return {};
}

Result<serve::RequestedOutput> read_output(const Object& object, bool all_binary) {
  serve::RequestedOutput output;
  PENSTOCK_TRY(output.name, needed_string(object, "name"));
  output.binary = all_binary;
  const auto read = [&]() -> Status {
    PENSTOCK_TRY(const auto parameters, object_field(object, "parameters"));
    if (!parameters) return {};
    PENSTOCK_TRY(output.place, read_place(*parameters));
    PENSTOCK_TRY(const auto highest, number_field(*parameters, "classification"));
    output.classification = highest.value_or(0);
    PENSTOCK_TRY(const auto binary, bool_field(*parameters, "binary_data"));
    output.binary = binary.value_or(all_binary);
    return {};
  }();
  if (!read) return Error(read.error()).within({Where::kOutput, output.name});
  return output;
}

Status read_outputs(const Object& root, InferBody& read) {
  PENSTOCK_TRY(const auto outputs, array_field(root, "outputs"));
  if (!outputs) return {};
  for (const Element element : *outputs) {
    Object object;
    if (element.get(object) != simdjson::SUCCESS) {
      return invalid_argument("'outputs': expected objects, found ", kind_of(element));
    }
    PENSTOCK_TRY(auto output, read_output(object, read.all_binary));
    read.request.outputs.push_back(std::move(output));
  }
  return {};
}

std::string shape_text(const std::vector<std::int64_t>& dims) {
  return concat("[", join(dims, ",", [](auto dim) { return std::to_string(dim); }), "]");
}

/// The JSON of one output, and its bytes where they go behind it.
Status write_output(const serve::ReplyOutput& output, bool binary, std::string& json,
                    std::vector<http::Piece>& bytes) {
  json +=
      concat("{\"name\":", json_string(output.name).value_or("\"\""), ",\"datatype\":\"",
             datatype_of(output.value.dtype()), "\",\"shape\":", shape_text(output.value.dims()));
  if (output.place) {  // Without parameters: Triton's client in C++ looks for bytes where some are.
    json += '}';
    return {};
  }
  if (!binary) {
    json += ",\"data\":";
    const Status written = append_data(output.value, json);
    if (!written) return Error(written.error()).within({Where::kOutput, output.name});
    json += '}';
    return {};
  }
  http::Piece piece;
  if (output.value.kind() == Tensor::Kind::kStrings) {
    piece.text = encode_strings(output.value);
  } else {
    // The copy shares the tensor's memory, and keeps it whoever owns that.
    const auto kept = std::make_shared<const Tensor>(output.value);
    piece.bytes = {static_cast<const std::byte*>(kept->data()), kept->bytes()};
    piece.owner = kept;
  }
  json += concat(",\"parameters\":{\"binary_data_size\":", piece.content().size(), "}}");
  if (!piece.content().empty()) bytes.push_back(std::move(piece));
  return {};
}

/// Of the tensors that went into the JSON its text is left.
Status charge(const serve::Reply& reply, const std::string& json,
              const std::vector<http::Piece>& bytes) {
  if (reply.charge == nullptr) return {};
  std::uint64_t all = json.size();
  for (const auto& piece : bytes) all += piece.content().size();
  return reply.charge->become(all);
}

}  // namespace

Result<InferBody> read_infer(const http::Body& body, std::size_t json_bytes) {
  if (json_bytes > body.size) {
    return invalid_argument("'Inference-Header-Content-Length' is ", json_bytes,
                            ", but the body has ", counted(body.size, "byte"));
  }
  simdjson::dom::parser parser;
  auto parsed = parse_object(parser, body.text().substr(0, json_bytes));
  if (!parsed) {
    return std::move(parsed).error().adding(
        json_bytes < body.size || body.size == 0
            ? ""
            : "; where tensors' bytes follow, 'Inference-Header-Content-Length' says where the "
              "JSON "
              "ends, and 0 that there is none");
  }
  const Object root = *parsed;
  InferBody read;
  PENSTOCK_TRY(auto id, string_field(root, "id"));
  read.request.id = std::move(id).value_or("");
  PENSTOCK_TRY(const auto parameters, object_field(root, "parameters"));
  if (parameters) PENSTOCK_CHECK_OK(read_parameters(*parameters, read));
  Bytes bytes(body, json_bytes);
  PENSTOCK_CHECK_OK(read_inputs(root, bytes, read.request));
  if (bytes.left() > 0) {
    return invalid_argument("unexpected additional input data: no input takes ",
                            counted(bytes.left(), "byte"), " of the body");
  }
  PENSTOCK_CHECK_OK(read_outputs(root, read));
  return read;
}

Result<InferBody> read_raw_infer(const http::Body& body, const serve::ModelDescription& model) {
  if (model.inputs.size() != 1) {
    return invalid_argument("a body of bytes alone is for models with one input; '", model.name,
                            "' has ", model.inputs.size());
  }
  const auto& tensor = model.inputs.front();
  std::vector<std::int64_t> dims = tensor.dims, one = dims;
  const auto open = std::ranges::count(dims, -1);
  for (auto& dim : one) dim = std::max<std::int64_t>(dim, 1);
  const auto items = count_elements(one);
  if (!items) return Error(items.error()).within({Where::kInput, tensor.name});
  const bool strings = tensor.dtype == DType::kString;
  if (open > 1 || (strings && open != static_cast<std::int64_t>(dims.size()) && *items != 1)) {
    return invalid_argument("a body of bytes alone is for inputs with one open dimension; '",
                            tensor.name, "' has ", open);
  }
  const std::uint64_t fills = strings ? 1 : body.size / bytes_of(tensor.dtype, *items);
  std::ranges::replace(dims, std::int64_t{-1}, static_cast<std::int64_t>(fills));
  InferBody read;
  read.all_binary = true;
  serve::RequestInput input{.name = tensor.name, .dtype = tensor.dtype, .dims = dims};
  if (strings) {
    input.value = Tensor::strings(dims, {std::string(body.text())});
  } else {
    Bytes bytes(body, 0);
    auto value = bytes.take(tensor.dtype, dims, body.size, read.request.copies);
    if (!value) return std::move(value).error().within({Where::kInput, tensor.name});
    input.value = *std::move(value);
  }
  read.request.inputs.push_back(std::move(input));
  return read;
}

Result<http::Response> write_reply(const serve::Reply& reply, bool listed, bool all_binary) {
  std::string json = "{";
  if (!reply.id.empty()) json += concat("\"id\":", json_string(reply.id).value_or("\"\""), ",");
  json +=
      concat("\"model_name\":", json_string(reply.model).value_or("\"\""),
             ",\"model_version\":", json_string(reply.version).value_or("\"\""), ",\"outputs\":[");
  std::vector<http::Piece> bytes;
  for (std::size_t i = 0; i < reply.outputs.size(); ++i) {
    const auto& output = reply.outputs[i];
    if (i > 0) json += ',';
    PENSTOCK_CHECK_OK(write_output(output, listed ? output.binary : all_binary, json, bytes));
  }
  json += "]}";
  http::Response response;
  response.headers.push_back(
      {"Content-Type", bytes.empty() ? "application/json" : "application/octet-stream"});
  if (!bytes.empty()) {
    response.headers.push_back({"Inference-Header-Content-Length", std::to_string(json.size())});
  }
  PENSTOCK_CHECK_OK(charge(reply, json, bytes));
  response.body.push_back({.text = std::move(json), .owner = reply.charge});
  std::ranges::move(bytes, std::back_inserter(response.body));
  return response;
}

}  // namespace penstock::rest
