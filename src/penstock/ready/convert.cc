// `convert`: a piece at a time becomes doubles, which are scaled and become the other type.
#include "penstock/ready/convert.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "penstock/ready/families.h"
#include "penstock/ready/kernel.h"
#include "penstock/ready/settings.h"
#include "penstock/ready/values.h"

namespace penstock::ready {
namespace {

/// The bits of an f16.
enum class Half : std::uint16_t {};

constexpr std::uint32_t kSign = 0x80000000U;

/// The nearest one towards zero, and odd where that is not the number itself: the bits that the
/// float lacks cannot make a tie of it when it is rounded once more.
float odd_float_of(double value) {
  const auto near = static_cast<float>(value);
  const auto back = static_cast<double>(near);
  const auto beyond = static_cast<std::uint32_t>(std::abs(back) > std::abs(value));
  const auto inexact = static_cast<std::uint32_t>(back != value);
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(near) - beyond) | inexact);
}

/// Denormal ones are made by a multiplication, which rounds as it should.
Half half_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t plain = bits & ~kSign, sign = (bits & kSign) >> 16U;
  const std::uint32_t odd = (plain >> 13U) & 1U;
  const std::uint32_t normal = (plain - (112U << 23U) + 0xFFFU + odd) >> 13U;
  // Of this sum the lowest bits are the denormal's.
  const auto small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(plain) + 0.5F) - 0x3F000000U;
  const std::uint32_t beyond = plain > 0x7F800000U ? 0x7E00U : 0x7C00U;  // Not a number, infinite.
  const std::uint32_t finite = plain < (113U << 23U) ? small : normal;
  return static_cast<Half>(sign | (plain >= (143U << 23U) ? beyond : finite));
}

float float_of(Half half) {
  const auto bits = static_cast<std::uint32_t>(half);
  const std::uint32_t plain = bits & 0x7FFFU, sign = (bits & 0x8000U) << 16U;
  const auto small = std::bit_cast<std::uint32_t>(static_cast<float>(plain) * 0x1p-24F);
  const std::uint32_t normal = (plain << 13U) + (112U << 23U);
  const std::uint32_t beyond = (plain << 13U) + (224U << 23U);
  const std::uint32_t finite = plain < 0x400U ? small : normal;
  return std::bit_cast<float>(sign | (plain >= 0x7C00U ? beyond : finite));
}

template <typename T>
void read_as(const void* from, double* __restrict to, std::size_t count) {
  const T* __restrict values = static_cast<const T*>(from);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<T, Half>) {
      to[i] = float_of(values[i]);
    } else {
      to[i] = static_cast<double>(values[i]);
    }
  }
}

/// The nearest, within the type's limits. A loop of types up to 32 bits has no branch and no call.
template <typename T>
T nearest_whole(double value) {
  using Limits = std::numeric_limits<T>;
  constexpr auto kLeast = static_cast<double>(Limits::min());
  constexpr auto kMost = static_cast<double>(Limits::max());  // Of i64 one more than it holds.
  const double number = std::isnan(value) ? 0.0 : value;
  if constexpr (sizeof(T) <= sizeof(std::int32_t)) {
    constexpr double kRounds = 0x1.8p52;  // Beside so large a number there are only whole ones.
    const double near = std::min(std::max(number, kLeast), kMost) + kRounds - kRounds;
    return static_cast<T>(static_cast<std::int32_t>(near));
  }
  const double near = std::nearbyint(number);
  if (near >= kMost) return Limits::max();
  return near <= kLeast ? Limits::min() : static_cast<T>(near);
}

template <typename T>
void write_as(const double* __restrict from, void* to, std::size_t count) {
  T* __restrict values = static_cast<T*>(to);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<T, Half>) {
      values[i] = half_of(odd_float_of(from[i]));
    } else if constexpr (std::is_floating_point_v<T>) {
      values[i] = static_cast<T>(from[i]);
    } else {
      values[i] = nearest_whole<T>(from[i]);
    }
  }
}

struct Ways {
  DType type;
  std::size_t bytes;
  void (*read)(const void* from, double* to, std::size_t count);
  void (*write)(const double* from, void* to, std::size_t count);
};

template <typename T>
constexpr Ways ways(DType type) {
  return {type, sizeof(T), &read_as<T>, &write_as<T>};
}

constexpr Ways kWays[] = {ways<float>(DType::kF32),        ways<Half>(DType::kF16),
                          ways<double>(DType::kF64),       ways<std::uint8_t>(DType::kU8),
                          ways<std::int8_t>(DType::kI8),   ways<std::uint16_t>(DType::kU16),
                          ways<std::int16_t>(DType::kI16), ways<std::int32_t>(DType::kI32),
                          ways<std::int64_t>(DType::kI64)};

struct Convert {
  DType from, to;
  Scaling scaling;

  Status run(Inputs in, Outputs out) const {
    PENSTOCK_CHECK_OK(shape(*out[0], in[0]->dims()));
    convert({in[0]->data(), from}, {out[0]->data(), to}, in[0]->count(), scaling);
    return {};
  }
};

Result<function::Function> make_convert(const Values& values) {
  const auto& dims = values.shape("shape");
  const auto from = *parse_dtype(values.word("type")), to = *parse_dtype(values.word("to"));
  return made_of("convert", {{"tensor", Type::tensor(from, dims)}},
                 {{"tensor", Type::tensor(to, dims)}},
                 Convert{from, to, {values.number("scale"), values.number("offset")}});
}

}  // namespace

Setting type_setting(std::string_view name, std::string_view usual, std::string_view says) {
  return word(name, usual, says, kNumberTypes);
}

void convert(Numbers<const void> from, Numbers<void> to, std::size_t count,
             const Scaling& scaling) {
  constexpr std::size_t kPiece = 1024;
  double piece[kPiece];
  const auto& source = *std::ranges::find(kWays, from.type, &Ways::type);
  if (from.type == to.type && scaling.scale == 1 && scaling.offset == 0) {
    std::memcpy(to.data, from.data, count * source.bytes);
    return;
  }
  const auto& target = *std::ranges::find(kWays, to.type, &Ways::type);
  const auto* bytes = static_cast<const std::byte*>(from.data);
  auto* made = static_cast<std::byte*>(to.data);
  for (std::size_t done = 0; done < count; done += kPiece) {
    const auto now = std::min(kPiece, count - done);
    source.read(bytes + done * source.bytes, piece, now);
    for (std::size_t i = 0; i < now; ++i) piece[i] = piece[i] * scaling.scale + scaling.offset;
    target.write(piece, made + done * target.bytes, now);
  }
}

std::vector<Declaration> convert_functions() {
  return {{.name = "convert",
           .says = "Numbers of another type, value * scale + offset, to the nearest: before and "
                   "behind networks of f16 or whole numbers. Whole numbers stop at their limits.",
           .settings = {shape_of("Of the tensor."), type_setting("type", "f32", "What comes."),
                        shown_as("f16", type_setting("to", "", "What it becomes.")),
                        number("scale", "1", "By what each value is multiplied.", -1e12, 1e12),
                        number("offset", "0", "What is added then.", -1e12, 1e12)},
           .make = &make_convert}};
}

}  // namespace penstock::ready
