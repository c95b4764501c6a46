// Converts errors, types and shapes field by field; what is read is checked and bounded.
#include "penstock/grpc/client/worker_messages.h"

#include <optional>
#include <utility>

#include "penstock/tensor/datatype.h"

namespace penstock::grpc {
namespace {

constexpr std::size_t kMostDims = 64;
/// Of a sentence: it goes as a header of the protocol, which takes no more than some thousands.
constexpr std::size_t kMostReason = 2000;
constexpr std::size_t kMostSentence = 500;

std::optional<Where::Kind> parse_kind(std::string_view text) {
  for (int i = 0; i <= static_cast<int>(Where::kTimeoutNs); ++i) {
    const auto kind = static_cast<Where::Kind>(i);
    if (to_string(kind) == text) return kind;
  }
  return std::nullopt;
}

Code read_code(int number) {
  const bool is_code = number >= static_cast<int>(Code::kCancelled) &&
                       number <= static_cast<int>(Code::kUnauthenticated);
  return is_code ? static_cast<Code>(number) : Code::kUnknown;
}

Result<Dim> read_dim(const worker::Dim& message) {
  if (message.size() < Dim::kOpen || message.bound() < Dim::kOpen) {
    return invalid_argument("a dimension of size ", message.size(), " and bound ", message.bound());
  }
  return Dim{message.size(), message.symbol(), message.bound()};
}

}  // namespace

void write(const Error& error, worker::Error& message) {
  message.set_code(static_cast<int>(error.code));
  message.set_reason(error.reason.substr(0, kMostReason));
  for (const auto& place : error.places) {
    auto& written = *message.add_places();
    written.set_kind(std::string(to_string(place.kind)));
    written.set_name(place.name.substr(0, kMostSentence));
    written.set_number(place.number);
  }
}

Error read(const worker::Error& message) {
  Error error{read_code(message.code()), message.reason(), {}};
  for (const auto& place : message.places()) {
    const auto kind = parse_kind(place.kind());
    if (!kind) continue;
    if (is_numbered(*kind)) {
      error.places.emplace_back(*kind, place.number());
    } else {
      error.places.emplace_back(*kind, place.name());
    }
  }
  return error;
}

::grpc::Status to_worker_status(const Error& error) {
  worker::Error message;
  write(error, message);
  return {static_cast<::grpc::StatusCode>(error.code), error.message().substr(0, kMostSentence),
          message.SerializeAsString()};
}

Error read_status(const ::grpc::Status& status) {
  worker::Error message;
  if (!status.error_details().empty() && message.ParseFromString(status.error_details())) {
    return read(message);
  }
  return make_error(read_code(static_cast<int>(status.error_code())), status.error_message());
}

void write(const Type& type, worker::Type& message) {
  message.set_dtype(static_cast<int>(type.dtype));
  message.set_ranked(type.ranked);
  for (const auto& dim : type.dims) {
    auto& written = *message.add_dims();
    written.set_size(dim.size);
    written.set_symbol(dim.symbol);
    written.set_bound(dim.bound);
  }
}

Result<Type> read(const worker::Type& message) {
  Type type{.kind = Type::Kind::kTensor, .ranked = message.ranked(), .dims = {}, .onnx = {}};
  PENSTOCK_TRY(type.dtype, read_dtype(message.dtype()));
  if (static_cast<std::size_t>(message.dims_size()) > kMostDims) {
    return invalid_argument("expected at most ", kMostDims, " dimensions, found ",
                            message.dims_size());
  }
  for (const auto& dim : message.dims()) {
    PENSTOCK_TRY(auto read_one, read_dim(dim));
    type.dims.push_back(std::move(read_one));
  }
  return type;
}

Result<std::vector<std::int64_t>> read_dims(const Dims& dims) {
  if (static_cast<std::size_t>(dims.size()) > kMostDims) {
    return invalid_argument("expected a shape of at most ", kMostDims, " sizes, found ",
                            dims.size());
  }
  std::vector<std::int64_t> sizes(dims.begin(), dims.end());
  PENSTOCK_CHECK_OK(count_elements(sizes));
  return sizes;
}

Result<DType> read_dtype(std::int32_t number) {
  const bool is_one = number > 0 && number <= static_cast<int>(DType::kI2);
  if (is_one) return static_cast<DType>(number);
  return invalid_argument("expected a type of elements by ONNX's number, found ", number);
}

}  // namespace penstock::grpc
