// Kernels: loops over elements, for what the library has no primitive for.
#pragma once

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "program.h"

namespace penstock::onednn {

/// How operands of one shape are gone through together.
struct Walk {
  Dims dims;                  ///< Outermost first.
  std::vector<Dims> strides;  ///< Of each operand, in elements; 0 where it is repeated.
};

/// In the order in which the last operand lies, with as few dimensions as all of them allow.
/// \pre `dims` is not empty, and `strides` have its rank.
Walk walk_of(const Dims& dims, std::vector<Dims> strides);

/// Those of an operand that ONNX's broadcast repeats into `dims`. \pre it is strided.
Dims broadcast_strides(const Layout& layout, const Dims& dims);

/// Calls row(offsets), in elements, for each row of the innermost dimension. \pre `kOperands`
/// operands.
template <std::size_t kOperands, typename Row>
void for_each_row(const Walk& walk, Row row) {
  const std::size_t outer = walk.dims.size() - 1;
  std::array<std::int64_t, DNNL_MAX_NDIMS> index{};
  std::array<std::int64_t, kOperands> offsets{};
  while (true) {
    row(std::as_const(offsets));
    std::size_t i = outer;
    for (; i > 0; --i) {
      const std::size_t axis = i - 1;
      ++index[axis];
      for (std::size_t o = 0; o < kOperands; ++o) offsets[o] += walk.strides[o][axis];
      if (index[axis] < walk.dims[axis]) break;
      for (std::size_t o = 0; o < kOperands; ++o) {
        offsets[o] -= walk.strides[o][axis] * walk.dims[axis];
      }
      index[axis] = 0;
    }
    if (i == 0) return;
  }
}

/// Copies elements of whatever type, operand 0 to operand 1.
Kernel copy_kernel(Walk walk, std::size_t element_bytes);

/// f32: the element at each index of the result is that at the sum of its indices' offsets. \pre
/// `offsets` has a dimension, and each has one.
Kernel table_kernel(std::vector<Dims> offsets);

template <typename T>
T* as(std::byte* data) {
  return reinterpret_cast<T*>(data);
}

/// result = function(operands...), the result the last operand of the walk.
template <typename Result, typename... Operands, typename Function>
Kernel map_kernel(Walk walk, Function function) {
  return [walk = std::move(walk), function](std::span<std::byte* const> data) {
    return [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
      constexpr std::size_t kResult = sizeof...(Operands);
      const std::int64_t count = walk.dims.back();
      const bool runs =
          walk.strides[kResult].back() == 1 && ((walk.strides[kIndex].back() == 1) && ...);
      for_each_row<kResult + 1>(walk, [&](const auto& at) {
        Result* const to = as<Result>(data[kResult]) + at[kResult];
        if (runs) {
          for (std::int64_t i = 0; i < count; ++i) {
            to[i] = function((as<const Operands>(data[kIndex]) + at[kIndex])[i]...);
          }
          return;
        }
        for (std::int64_t i = 0; i < count; ++i) {
          to[i * walk.strides[kResult].back()] = function(
              (as<const Operands>(data[kIndex]) + at[kIndex])[i * walk.strides[kIndex].back()]...);
        }
      });
      return Status();
    }(std::index_sequence_for<Operands...>());
  };
}

}  // namespace penstock::onednn
