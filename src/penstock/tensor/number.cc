// Encodes and decodes floats by their bits, loads and stores packed elements, finds denormals.
#include "penstock/tensor/number.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "penstock/tensor/memo.h"

namespace penstock {
namespace {

/// A floating-point format of sign, exponent and mantissa.
struct Format {
  enum class Special { kIeee, kNanOnly, kNegativeZeroIsNan, kNone };
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Special special;

  [[nodiscard]] std::uint64_t exponent_mask() const { return (1ULL << exponent_bits) - 1; }
  [[nodiscard]] std::uint64_t mantissa_mask() const { return (1ULL << mantissa_bits) - 1; }
  [[nodiscard]] std::uint64_t sign_bit() const { return 1ULL << (exponent_bits + mantissa_bits); }
  [[nodiscard]] std::uint64_t largest() const {
    const std::uint64_t all = sign_bit() - 1;
    if (special == Special::kIeee) return (exponent_mask() - 1) << mantissa_bits | mantissa_mask();
    return special == Special::kNanOnly ? all - 1 : all;
  }
  [[nodiscard]] std::uint64_t nan() const {
    if (special == Special::kNegativeZeroIsNan) return sign_bit();
    if (special == Special::kNanOnly) return sign_bit() - 1;
    return exponent_mask() << mantissa_bits | 1ULL << (mantissa_bits - 1);
  }
};

Format format_of(DType dtype) {
  using enum Format::Special;
  switch (dtype) {
    case DType::kF16:
      return {5, 10, 15, kIeee};
    case DType::kBF16:
      return {8, 7, 127, kIeee};
    case DType::kF8E4M3FN:
      return {4, 3, 7, kNanOnly};
    case DType::kF8E4M3FNUZ:
      return {4, 3, 8, kNegativeZeroIsNan};
    case DType::kF8E5M2:
      return {5, 2, 15, kIeee};
    case DType::kF8E5M2FNUZ:
      return {5, 2, 16, kNegativeZeroIsNan};
    default:
      return {2, 1, 1, kNone};  // kF4E2M1
  }
}

double decode(const Format& format, std::uint64_t bits) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto exponent = static_cast<int>(bits >> format.mantissa_bits & format.exponent_mask());
  const auto mantissa = static_cast<double>(bits & format.mantissa_mask());
  const double sign = (bits & format.sign_bit()) != 0 ? -1.0 : 1.0;
  const auto magnitude = bits & (format.sign_bit() - 1);
  if (format.special == Format::Special::kNegativeZeroIsNan && bits == format.sign_bit())
    return kNan;
  if (format.special == Format::Special::kNanOnly && magnitude == format.nan()) return kNan;
  if (format.special == Format::Special::kIeee && magnitude > format.largest()) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : kNan;
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - format.bias - format.mantissa_bits);
  const double significand = mantissa + std::ldexp(1.0, format.mantissa_bits);
  return sign * std::ldexp(significand, exponent - format.bias - format.mantissa_bits);
}

std::uint64_t encode(const Format& format, double value) {
  const bool ieee = format.special == Format::Special::kIeee;
  if (std::isnan(value)) return format.special == Format::Special::kNone ? 0 : format.nan();
  const std::uint64_t sign = std::signbit(value) ? format.sign_bit() : 0;
  const double size = std::fabs(value);
  if (!std::isfinite(size)) return sign | (format.largest() + (ieee ? 1 : 0));
  if (size == 0) return format.special == Format::Special::kNegativeZeroIsNan ? 0 : sign;
  int exponent = 0;
  std::frexp(size, &exponent);  // size = f * 2^exponent, f in [0.5, 1)
  const int lowest = 1 - format.bias;
  const int unit = std::max(exponent - 1, lowest) - format.mantissa_bits;
  const auto steps = static_cast<std::uint64_t>(std::nearbyint(std::ldexp(size, -unit)));
  // Rounding up to the next power of two carries into the exponent by itself.
  const auto above = static_cast<std::uint64_t>(unit + format.mantissa_bits - lowest);
  const std::uint64_t bits = (above << format.mantissa_bits) + steps;
  if (bits == 0) return format.special == Format::Special::kNegativeZeroIsNan ? 0 : sign;
  return sign | std::min(bits, format.largest() + (ieee ? 1 : 0));
}

struct Range {
  double lowest;
  double highest;
};

Range range_of(DType dtype) {
  const auto bits = static_cast<int>(bits_of(dtype));
  switch (dtype) {
    case DType::kI2:
    case DType::kI4:
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
      return {-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - 1};
    case DType::kBool:
      return {0, 1};
    default:
      return {0, std::ldexp(1.0, bits) - 1};
  }
}

bool is_signed(DType dtype) {
  return dtype == DType::kI2 || dtype == DType::kI4 || dtype == DType::kI8 ||
         dtype == DType::kI16 || dtype == DType::kI32 || dtype == DType::kI64;
}

std::uint64_t mask_of(std::size_t bits) {
  return bits == 64 ? ~0ULL : (1ULL << bits) - 1;
}

}  // namespace

bool is_float(DType dtype) {
  switch (dtype) {
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
    case DType::kF64:
    case DType::kF8E4M3FN:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
    case DType::kF4E2M1:
    case DType::kF8E8M0:
      return true;
    default:
      return false;
  }
}

bool is_wide_integer(DType dtype) {
  using enum DType;
  constexpr std::array kWide{kI16, kU16, kI32, kU32, kI64, kU64};
  return std::ranges::find(kWide, dtype) != kWide.end();
}

double number_from_bits(DType dtype, std::uint64_t bits) {
  if (dtype == DType::kF32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  if (dtype == DType::kF64) return std::bit_cast<double>(bits);
  if (dtype == DType::kF8E8M0) {
    return bits == 0xFF ? std::numeric_limits<double>::quiet_NaN()
                        : std::ldexp(1.0, static_cast<int>(bits) - 127);
  }
  if (is_float(dtype)) return decode(format_of(dtype), bits);
  if (!is_signed(dtype)) return static_cast<double>(bits);
  const auto shift = 64 - bits_of(dtype);
  return static_cast<double>(static_cast<std::int64_t>(bits << shift) >> shift);
}

std::uint64_t bits_from_number(DType dtype, double value) {
  if (dtype == DType::kF32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (dtype == DType::kF64) return std::bit_cast<std::uint64_t>(value);
  if (dtype == DType::kF8E8M0) {
    if (!(value > 0)) return 0xFF;
    return static_cast<std::uint64_t>(
        std::clamp(std::nearbyint(std::log2(value)) + 127, 0.0, 254.0));
  }
  if (is_float(dtype)) return encode(format_of(dtype), value);
  if (dtype == DType::kI64) {
    if (value >= 0x1p63) return mask_of(63);
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(std::max(value, -0x1p63)));
  }
  if (dtype == DType::kU64) {
    return value >= 0x1p64 ? ~0ULL : static_cast<std::uint64_t>(std::max(value, 0.0));
  }
  const auto range = range_of(dtype);
  const auto whole =
      static_cast<std::int64_t>(std::clamp(std::nearbyint(value), range.lowest, range.highest));
  return static_cast<std::uint64_t>(whole) & mask_of(bits_of(dtype));
}

std::uint64_t load_bits(DType dtype, const void* data, std::size_t index) {
  const auto bits = bits_of(dtype);
  const auto* bytes = static_cast<const unsigned char*>(data);
  if (bits < 8) return bytes[index * bits / 8] >> (index * bits % 8) & mask_of(bits);
  std::uint64_t value = 0;
  std::memcpy(&value, bytes + index * (bits / 8), bits / 8);
  return value;
}

void store_bits(DType dtype, void* data, std::size_t index, std::uint64_t value) {
  const auto bits = bits_of(dtype);
  auto* bytes = static_cast<unsigned char*>(data);
  if (bits >= 8) {
    std::memcpy(bytes + index * (bits / 8), &value, bits / 8);
    return;
  }
  const auto shift = index * bits % 8;
  unsigned char& byte = bytes[index * bits / 8];
  byte = static_cast<unsigned char>((byte & ~(mask_of(bits) << shift)) | (value & mask_of(bits))
                                                                             << shift);
}

namespace {

// Exponent zero, fraction not. In blocks without early exit, which compilers vectorise.
bool any_denormal(std::span<const std::uint32_t> floats) {
  constexpr std::size_t kBlock = 4096;
  while (!floats.empty()) {
    const auto block = floats.first(std::min(kBlock, floats.size()));
    std::uint32_t found = 0;
    for (const auto bits : block) {
      const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
      found |= static_cast<std::uint32_t>(magnitude - 1U < 0x007FFFFFU);
    }
    if (found != 0) return true;
    floats = floats.subspan(block.size());
  }
  return false;
}

}  // namespace

bool has_denormals(const Tensor& tensor) {
  if (tensor.kind() != Tensor::Kind::kDense || tensor.dtype() != DType::kF32) return false;
  static TensorMemo<bool> memo;
  return memo.get(tensor, [&] { return any_denormal(tensor.as<std::uint32_t>()); });
}

}  // namespace penstock
