// A table of each element type's name and number of bits.
#include "penstock/tensor/dtype.h"

#include <array>

namespace penstock {
namespace {

struct Row {
  std::string_view name;
  std::size_t bits;
};

// Indexed by DType.
constexpr std::array<Row, 27> kRows = {{
    {"?", 0},          {"f32", 32},  {"u8", 8},       {"i8", 8},         {"u16", 16},
    {"i16", 16},       {"i32", 32},  {"i64", 64},     {"string", 0},     {"bool", 8},
    {"f16", 16},       {"f64", 64},  {"u32", 32},     {"u64", 64},       {"c64", 64},
    {"c128", 128},     {"bf16", 16}, {"f8e4m3fn", 8}, {"f8e4m3fnuz", 8}, {"f8e5m2", 8},
    {"f8e5m2fnuz", 8}, {"u4", 4},    {"i4", 4},       {"f4e2m1", 4},     {"f8e8m0", 8},
    {"u2", 2},         {"i2", 2},
}};

const Row& row_of(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  return kRows[index < kRows.size() ? index : 0];
}

}  // namespace

std::string_view to_string(DType dtype) {
  return row_of(dtype).name;
}

std::optional<DType> parse_dtype(std::string_view text) {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::size_t bits_of(DType dtype) {
  return row_of(dtype).bits;
}

std::size_t bytes_of(DType dtype, std::size_t count) {
  return (count * bits_of(dtype) + 7) / 8;
}

}  // namespace penstock
