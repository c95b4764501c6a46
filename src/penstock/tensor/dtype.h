// Element types. The numbers are those of ONNX's TensorProto.DataType.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace penstock {

enum class DType : std::uint8_t {
  kUndefined = 0,
  kF32 = 1,
  kU8 = 2,
  kI8 = 3,
  kU16 = 4,
  kI16 = 5,
  kI32 = 6,
  kI64 = 7,
  kString = 8,
  kBool = 9,
  kF16 = 10,
  kF64 = 11,
  kU32 = 12,
  kU64 = 13,
  kC64 = 14,
  kC128 = 15,
  kBF16 = 16,
  kF8E4M3FN = 17,
  kF8E4M3FNUZ = 18,
  kF8E5M2 = 19,
  kF8E5M2FNUZ = 20,
  kU4 = 21,
  kI4 = 22,
  kF4E2M1 = 23,
  kF8E8M0 = 24,
  kU2 = 25,
  kI2 = 26,
};

/// "f32", "i64", "bf16", ...; "?" for kUndefined and numbers that are not a dtype.
std::string_view to_string(DType dtype);

/// The inverse of to_string, for JSON.
std::optional<DType> parse_dtype(std::string_view text);

/// Bits of one element: 4 for the packed kinds; 0 for strings and kUndefined.
std::size_t bits_of(DType dtype);

/// Bytes of `count` elements, packed kinds rounded up; 0 for strings and kUndefined.
std::size_t bytes_of(DType dtype, std::size_t count);

}  // namespace penstock
