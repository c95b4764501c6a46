// Expression: a value as code over tensors in device memory, until something needs it computed.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/lower/operands.h"
#include "penstock/tensor/tensor.h"

namespace penstock::cuda {

using lower::Dims;
using lower::dims_of;
using lower::spatial_of;

std::int64_t count_of(const Dims& dims);
Dims contiguous_strides(const Dims& dims);

/// No buffer: what the kernel itself has just computed, before it is written.
inline constexpr std::size_t kPending = std::numeric_limits<std::size_t>::max();

/// One tensor that an expression reads: which of a buffer's elements stands at each index.
struct Leaf {
  std::size_t buffer = 0;
  std::int64_t offset = 0;  ///< Elements from the buffer's begin.
  Dims strides;             ///< Of the expression's dimensions, in elements; 0 repeats. May be < 0.
  DType dtype = DType::kF32;
  bool operator==(const Leaf&) const = default;
};

/// The code with "$0", "$1", ... replaced by the elements of that number.
std::string with_elements(const std::string& code, const std::vector<std::string>& elements);

/// An element-wise function of leaves. `code` is a C++ expression in which "$0", "$1", ... stand
/// for the leaves' elements; a place, which is computed already, is "$0" alone. Reordering, slicing
/// and repeating a value changes its leaves only: nothing is copied.
struct Expression {
  Dims dims;
  DType dtype = DType::kF32;
  std::vector<Leaf> leaves;
  std::string code;

  static Expression place(std::size_t buffer, Dims dims, DType dtype);
  /// Of f32, the element that a kernel has just computed.
  static Expression pending(Dims dims) { return place(kPending, std::move(dims), DType::kF32); }
  [[nodiscard]] bool is_place() const { return std::string_view(code) == "$0"; }
  /// A place whose elements lie one after the other.
  [[nodiscard]] bool is_dense() const;

  // Seen otherwise. None computes anything.
  [[nodiscard]] Expression permuted(const Dims& order) const;
  /// ONNX's broadcast. \pre it goes into `dims`
  [[nodiscard]] Expression broadcast(const Dims& dims) const;
  /// The elements begin + i * step of each dimension, as many as `dims` has.
  [[nodiscard]] Expression window(const Dims& begin, const Dims& steps, const Dims& dims) const;
  /// The same elements in the same order; empty where a leaf's strides do not allow it.
  [[nodiscard]] std::optional<Expression> reshaped(const Dims& dims) const;
};

/// `call`(operands..., constants...) of each element, the operands broadcast together: the name of
/// a function of the prelude (functions.h), or an operator in the form "cast".
Expression apply(std::string_view function, const std::vector<Expression>& operands, DType dtype,
                 const std::vector<std::string>& constants = {});

/// What several shapes have in common by ONNX's rules. \pre they agree
Dims broadcast_dims(const std::vector<Expression>& operands);

/// A number as CUDA C++ has it: "0.5f", "INFINITY".
std::string literal(float value);

/// CUDA C++'s type: "float", "long long".
std::string_view type_name(DType dtype);

}  // namespace penstock::cuda
