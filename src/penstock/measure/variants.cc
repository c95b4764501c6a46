// Changes the last bits of floats, rounds them to a narrower type, or reverses the elements.
#include "penstock/measure/variants.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "penstock/tensor/number.h"
#include "penstock/tensor/random.h"

namespace penstock::measure {
namespace {

/// The real kind that a tensor's elements, or their two parts, have; kUndefined: no float.
DType part_type(DType dtype) {
  if (dtype == DType::kC64) return DType::kF32;
  if (dtype == DType::kC128) return DType::kF64;
  return is_float(dtype) && bits_of(dtype) >= 16 ? dtype : DType::kUndefined;
}

/// A copy of `value` with `change(dtype, bits)` of each float; `value` itself where it has none.
template <typename Change>
Tensor with_floats_changed(const Tensor& value, const Change& change) {
  if (value.kind() != Tensor::Kind::kDense) return value;
  const DType part = part_type(value.dtype());
  if (part == DType::kUndefined) return value;
  Tensor changed = value.clone();
  const auto count = changed.bytes() * 8 / bits_of(part);
  for (std::size_t i = 0; i < count; ++i) {
    store_bits(part, changed.data(), i, change(part, load_bits(part, changed.data(), i)));
  }
  return changed;
}

/// A float next to this one, away from 0 or towards it: the bits of magnitudes are their order.
std::uint64_t next_to(DType dtype, std::uint64_t bits, std::uint64_t units, bool larger) {
  const double number = number_from_bits(dtype, bits);
  if (number == 0 || !std::isfinite(number)) return bits;
  const auto next = larger ? bits + units : bits - units;
  const double moved = number_from_bits(dtype, next);
  const bool past_the_end = !std::isfinite(moved) || std::signbit(moved) != std::signbit(number) ||
                            (std::abs(moved) > std::abs(number)) != larger;
  return past_the_end ? bits : next;
}

Tensor reversed(const Tensor& value) {
  if (value.kind() == Tensor::Kind::kStrings) {
    return Tensor::strings(value.dims(), {value.strings().rbegin(), value.strings().rend()});
  }
  if (value.kind() != Tensor::Kind::kDense) return value;
  Tensor result = value.clone();
  const auto count = value.count();
  const auto size = bits_of(value.dtype()) / 8;
  for (std::size_t i = 0; i < count; ++i) {
    if (size == 0) {  // Of 4 or 2 bits.
      store_bits(value.dtype(), result.data(), i,
                 load_bits(value.dtype(), value.data(), count - 1 - i));
    } else {
      std::memcpy(static_cast<char*>(result.data()) + i * size,
                  static_cast<const char*>(value.data()) + (count - 1 - i) * size, size);
    }
  }
  return result;
}

bool same_value(const Tensor& a, const Tensor& b) {
  if (a.kind() != b.kind() || a.dtype() != b.dtype() || a.dims() != b.dims()) return false;
  if (a.kind() == Tensor::Kind::kStrings) return a.strings() == b.strings();
  if (a.kind() != Tensor::Kind::kDense) return a.kind() == Tensor::Kind::kNone;
  return a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

}  // namespace

frames::Frame with_last_bits_changed(const frames::Frame& frame, std::uint64_t seed,
                                     std::uint64_t units) {
  Random coins(seed);
  std::uint64_t left = 0, drawn = 0;
  frames::Frame changed;
  for (const auto& value : frame) {
    changed.push_back(with_floats_changed(value, [&](DType dtype, std::uint64_t bits) {
      if (left == 0) {
        drawn = coins.bits();
        left = 64;
      }
      const bool larger = (drawn >> --left & 1U) != 0;
      return next_to(dtype, bits, units, larger);
    }));
  }
  return changed;
}

Tensor rounded_to(DType narrow, const Tensor& value) {
  return with_floats_changed(value, [narrow](DType dtype, std::uint64_t bits) {
    const double number = number_from_bits(dtype, bits);
    const double rounded = number_from_bits(narrow, bits_from_number(narrow, number));
    return std::isfinite(rounded) ? bits_from_number(dtype, rounded) : bits;
  });
}

frames::Frame rounded_to(DType narrow, const frames::Frame& frame) {
  frames::Frame rounded;
  for (const auto& value : frame) rounded.push_back(rounded_to(narrow, value));
  return rounded;
}

frames::Frame reversed(const frames::Frame& frame) {
  frames::Frame turned;
  for (const auto& value : frame) turned.push_back(reversed(value));
  return turned;
}

bool same_values(const frames::Frame& a, const frames::Frame& b) {
  return std::ranges::equal(a, b, same_value);
}

}  // namespace penstock::measure
