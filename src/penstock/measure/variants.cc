// Changes the last bits of floats, rounds them to a narrower type, or reverses the elements.
#include "penstock/measure/variants.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
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

/// Whether all its elements are the same.
bool is_even(const Tensor& value) {
  if (value.kind() == Tensor::Kind::kStrings) {
    return std::ranges::adjacent_find(value.strings(), std::not_equal_to()) ==
           value.strings().end();
  }
  if (value.kind() != Tensor::Kind::kDense) return true;
  for (std::size_t i = 1; i < value.count(); ++i) {
    if (load_bits(value.dtype(), value.data(), i) != load_bits(value.dtype(), value.data(), 0)) {
      return false;
    }
  }
  return true;
}

bool is_silent(const frames::Frame& frame) {
  return std::ranges::all_of(frame, is_even);
}

/// The first `most` evenly from all of them, then the others.
std::vector<std::size_t> spread(std::size_t count, std::size_t most) {
  std::vector<std::size_t> order;
  std::vector<bool> taken(count);
  for (std::size_t i = 0; i < std::min(most, count); ++i) {
    order.push_back(i * count / std::min(most, count));
    taken[order.back()] = true;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!taken[i]) order.push_back(i);
  }
  return order;
}

}  // namespace

frames::Frame with_last_bits_changed(const frames::Frame& frame, std::uint64_t seed,
                                     const LastBits& how) {
  Random coins(seed);
  std::uint64_t left = 0, drawn = 0;
  frames::Frame changed;
  for (const auto& value : frame) {
    changed.push_back(with_floats_changed(value, [&](DType dtype, std::uint64_t bits) {
      if (how.wide && bits_of(dtype) < 32) return bits;
      if (left == 0) {
        drawn = coins.bits();
        left = 64;
      }
      const bool larger = ((drawn >> --left & 1U) != 0) != how.mirrored;
      return next_to(dtype, bits, how.units, larger);
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

std::vector<std::size_t> telling_frames(std::span<const frames::Frame> frames, std::size_t most,
                                        bool sequence) {
  most = std::min(most, frames.size());
  std::vector<std::size_t> chosen;
  if (sequence) {
    const auto first = std::ranges::find_if_not(frames, is_silent);
    const auto begin = first == frames.end() ? 0 : static_cast<std::size_t>(first - frames.begin());
    chosen.resize(most);
    std::iota(chosen.begin(), chosen.end(), std::min(begin, frames.size() - most));
    return chosen;
  }
  auto order = spread(frames.size(), most);
  for (const auto i : order) {
    if (chosen.size() == most) break;
    const bool seen = std::ranges::any_of(
        chosen, [&](std::size_t other) { return same_values(frames[i], frames[other]); });
    if (!seen && !is_silent(frames[i])) chosen.push_back(i);
  }
  std::erase_if(order, [&](std::size_t i) { return std::ranges::find(chosen, i) != chosen.end(); });
  chosen.insert(chosen.end(), order.begin(),
                order.begin() + static_cast<std::ptrdiff_t>(most - chosen.size()));
  return chosen;
}

std::vector<frames::Frame> with_telling_first(std::vector<frames::Frame> frames, std::size_t most,
                                              bool sequence) {
  const auto chosen = telling_frames(frames, most, sequence);
  if (chosen.empty()) return frames;
  if (sequence) {
    std::ranges::rotate(frames, frames.begin() + static_cast<std::ptrdiff_t>(chosen.front()));
    return frames;
  }
  std::vector<frames::Frame> ordered;
  for (const auto i : chosen) ordered.push_back(frames[i]);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (std::ranges::find(chosen, i) == chosen.end()) ordered.push_back(std::move(frames[i]));
  }
  return ordered;
}

}  // namespace penstock::measure
