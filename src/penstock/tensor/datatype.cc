// A table of names, sizes checked for overflow, and strings written behind their lengths.
#include "penstock/tensor/datatype.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "penstock/base/words.h"

namespace penstock {
namespace {

struct Name {
  DType dtype;
  std::string_view text;
};
constexpr std::array kNames = {
    Name{DType::kBool, "BOOL"},  Name{DType::kU8, "UINT8"},     Name{DType::kU16, "UINT16"},
    Name{DType::kU32, "UINT32"}, Name{DType::kU64, "UINT64"},   Name{DType::kI8, "INT8"},
    Name{DType::kI16, "INT16"},  Name{DType::kI32, "INT32"},    Name{DType::kI64, "INT64"},
    Name{DType::kF16, "FP16"},   Name{DType::kF32, "FP32"},     Name{DType::kF64, "FP64"},
    Name{DType::kBF16, "BF16"},  Name{DType::kString, "BYTES"},
};

constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);

Error too_large(std::span<const std::int64_t> dims) {
  return invalid_argument("shape [", join(dims, ",", [](auto dim) { return std::to_string(dim); }),
                          "] has more elements than any memory holds");
}

/// The next element's bytes. \error kInvalidArgument
Result<std::string_view> next_string(std::string_view bytes, std::size_t element) {
  std::uint32_t length = 0;
  if (bytes.size() < kLengthBytes) {
    return invalid_argument("element ", element, ": expected 4 bytes of its length, found ",
                            bytes.size());
  }
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (bytes.size() - kLengthBytes < length) {
    return invalid_argument("element ", element, ": its length is ", counted(length, "byte"),
                            ", but ", bytes.size() - kLengthBytes, " are left");
  }
  return bytes.substr(kLengthBytes, length);
}

}  // namespace

std::string_view datatype_of(DType dtype) {
  const auto* found = std::ranges::find(kNames, dtype, &Name::dtype);
  return found == kNames.end() ? std::string_view() : found->text;
}

Result<DType> parse_datatype(std::string_view text) {
  const auto* found = std::ranges::find(kNames, text, &Name::text);
  if (found != kNames.end()) return found->dtype;
  return invalid_argument("'", text.substr(0, 32), "' is no datatype; expected ",
                          join(kNames, ", ", [](const Name& name) { return name.text; }));
}

Result<std::size_t> count_elements(std::span<const std::int64_t> dims) {
  // So that the bytes of the largest elements fit too.
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max() / 16;
  std::uint64_t count = 1;
  bool empty = false;
  for (const std::int64_t dim : dims) {
    if (dim < 0) return invalid_argument("shape: expected sizes of 0 or more, found ", dim);
    if (dim == 0) {
      empty = true;
      continue;
    }
    if (count > kMost / static_cast<std::uint64_t>(dim)) return too_large(dims);
    count *= static_cast<std::uint64_t>(dim);
  }
  return empty ? 0 : static_cast<std::size_t>(count);
}

Result<std::size_t> count_bytes(DType dtype, std::span<const std::int64_t> dims) {
  PENSTOCK_TRY(const std::size_t count, count_elements(dims));
  return bytes_of(dtype, count);
}

Result<Tensor> decode_strings(std::span<const std::byte> bytes, std::vector<std::int64_t> dims) {
  PENSTOCK_TRY(const std::size_t count, count_elements(dims));
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (count > rest.size() / kLengthBytes) {  // Before anything of that size is made.
    return invalid_argument("expected ", counted(count, "string"),
                            ", each behind 4 bytes of its length; found ",
                            counted(bytes.size(), "byte"), " in all");
  }
  std::vector<std::string> values;
  values.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    PENSTOCK_TRY(const auto value, next_string(rest, i));
    values.emplace_back(value);
    rest.remove_prefix(kLengthBytes + value.size());
  }
  if (!rest.empty()) {
    return invalid_argument("expected ", counted(count, "string"), ", found ",
                            counted(rest.size(), "byte"), " behind the last one");
  }
  return Tensor::strings(std::move(dims), std::move(values));
}

std::size_t encoded_bytes(const Tensor& tensor) {
  if (tensor.kind() != Tensor::Kind::kStrings) return tensor.bytes();
  std::size_t bytes = 0;
  for (const auto& value : tensor.strings()) bytes += kLengthBytes + value.size();
  return bytes;
}

std::string encode_strings(const Tensor& tensor) {
  std::string bytes;
  bytes.reserve(encoded_bytes(tensor));
  for (const auto& value : tensor.strings()) {
    const auto length = static_cast<std::uint32_t>(value.size());
    bytes.append(reinterpret_cast<const char*>(&length), kLengthBytes);
    bytes += value;
  }
  return bytes;
}

Result<Tensor> copy_raw(DType dtype, std::vector<std::int64_t> dims,
                        std::span<const std::byte> bytes) {
  if (dtype == DType::kString) return decode_strings(bytes, std::move(dims));
  PENSTOCK_TRY(const std::size_t expected, count_bytes(dtype, dims));
  if (bytes.size() != expected) {
    return invalid_argument("expected ", counted(expected, "byte"), " for ",
                            to_string(Type::tensor(dtype, std::span(std::as_const(dims)))),
                            ", found ", bytes.size());
  }
  Tensor tensor = Tensor::reserve(dtype, expected);
  if (!tensor.set_dims(dims)) return internal_error("a tensor has no room for its own bytes");
  if (expected > 0) std::memcpy(tensor.data(), bytes.data(), expected);
  return tensor;
}

}  // namespace penstock
