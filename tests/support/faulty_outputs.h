// Outputs as faulty backends give them. Dense tensors whose elements are whole bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "penstock/tensor/tensor.h"

namespace penstock {

inline std::size_t size_of_element(const Tensor& value) {
  return bits_of(value.dtype()) / 8;
}

inline Tensor zeros(const Tensor& value) {
  return Tensor::allocate(value.dtype(), value.dims());
}

/// Each channel, or what the second of several dimensions is, gets what the one before it had.
inline Tensor shifted_channels(const Tensor& value) {
  Tensor shifted = value.clone();
  const auto& dims = value.dims();
  const std::size_t axis = dims.size() > 1 ? 1 : 0;
  std::size_t inner = size_of_element(value);
  for (std::size_t i = axis + 1; i < dims.size(); ++i) inner *= static_cast<std::size_t>(dims[i]);
  const std::size_t whole = inner * static_cast<std::size_t>(dims.empty() ? 1 : dims[axis]);
  auto* to = static_cast<char*>(shifted.data());
  for (auto* row = to; whole > 0 && row < to + value.bytes(); row += whole) {
    std::rotate(row, row + (whole - inner), row + whole);
  }
  return shifted;
}

/// A hundredth of the elements in the middle, one at least, have what the first ones have.
inline Tensor one_wrong_block(const Tensor& value) {
  Tensor wrong = value.clone();
  const auto count = value.count();
  const auto size = size_of_element(value);
  const auto length = std::max<std::size_t>(count / 50, 1);
  const auto begin = count / 2;
  std::memmove(static_cast<char*>(wrong.data()) + begin * size, value.data(),
               std::min(length, count - begin) * size);
  return wrong;
}

/// As a batch of which the last row was not computed; what has one row is right.
inline Tensor without_last_row(const Tensor& value) {
  Tensor wrong = value.clone();
  const auto& dims = value.dims();
  if (dims.empty() || dims.front() < 2) return wrong;
  const auto row = value.bytes() / static_cast<std::size_t>(dims.front());
  std::memset(static_cast<char*>(wrong.data()) + value.bytes() - row, 0, row);
  return wrong;
}

}  // namespace penstock
