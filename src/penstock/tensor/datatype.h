// What the protocol calls the types of elements, and how it writes tensors as bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock {

/// "FP32", "INT64", "BYTES", ...; empty where the protocol has no name for the type.
std::string_view datatype_of(DType dtype);

/// The inverse. \error kInvalidArgument  "'FP31' is no datatype; expected BOOL, UINT8, ..."
Result<DType> parse_datatype(std::string_view text);

/// Elements of that shape. \error kInvalidArgument  a dimension is negative, or there are more than
/// any memory holds.
Result<std::size_t> count_elements(std::span<const std::int64_t> dims);

/// Bytes of a tensor that are not BYTES. \error as count_elements()
Result<std::size_t> count_bytes(DType dtype, std::span<const std::int64_t> dims);

/// A tensor of strings from the bytes of the protocol: before each element its length in 4 bytes.
/// \error kInvalidArgument  the bytes end within an element, or hold more or fewer than `dims`.
Result<Tensor> decode_strings(std::span<const std::byte> bytes, std::vector<std::int64_t> dims);

/// The inverse. \pre  a tensor of strings
std::string encode_strings(const Tensor& tensor);

/// Bytes of a tensor as the protocol writes it. \pre  a tensor of numbers or strings
std::size_t encoded_bytes(const Tensor& tensor);

/// A copy of raw bytes as a tensor: aligned as engines want it. BYTES are decoded.
/// \error kInvalidArgument  "expected 12 bytes for f32[3], found 8", and as those above.
Result<Tensor> copy_raw(DType dtype, std::vector<std::int64_t> dims,
                        std::span<const std::byte> bytes);

}  // namespace penstock
