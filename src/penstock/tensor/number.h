// Single elements of numeric dtypes as doubles: for comparing, printing and making values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "penstock/tensor/dtype.h"
#include "penstock/tensor/tensor.h"

namespace penstock {

/// The number that `bits` (the element's bytes, little end first) stand for. Exact, but for 64-bit
/// integers over 2^53. \pre `dtype` is a real floating-point or integer kind, or kBool.
double number_from_bits(DType dtype, std::uint64_t bits);

/// The nearest representable value, ties to even; integers saturate, floats without infinity too.
/// \pre as number_from_bits(); `value` is not NaN for integers.
std::uint64_t bits_from_number(DType dtype, double value);

/// Whether the dtype is a real floating-point kind, of any width.
bool is_float(DType dtype);

/// Whether the dtype is an integer kind of 16 bits and more: those hold sizes, places and labels,
/// narrower ones pixels and quantised numbers.
bool is_wide_integer(DType dtype);

/// Whether a dense f32 tensor holds a denormal: arithmetic with those is slow. Others: false.
bool has_denormals(const Tensor& tensor);

/// Element `index` of densely packed `data`, 4- and 2-bit kinds included (low bits first).
std::uint64_t load_bits(DType dtype, const void* data, std::size_t index);
void store_bits(DType dtype, void* data, std::size_t index, std::uint64_t bits);

}  // namespace penstock
