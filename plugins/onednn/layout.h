// Layout: the shape of a tensor and how it lies in memory, a value around oneDNN's descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine.h"
#include "penstock/lower/operands.h"
#include "penstock/tensor/tensor.h"

namespace penstock::onednn {

using lower::Dims;
using lower::dims_of;
using lower::spatial_of;

std::int64_t count_of(std::span<const std::int64_t> dims);

/// A scalar is [1]: oneDNN knows no rank 0.
Dims at_least_1d(Dims dims);

/// Elements in C order around one dimension: `outer` blocks of `size` rows of `inner` elements.
struct Blocks {
  std::int64_t outer, size, inner;
};
Blocks blocks_around(const Dims& dims, std::size_t axis);

/// Immutable and cheap to copy. The library knows those of f32; of other types they are strides
/// alone.
class Layout {
 public:
  Layout() = default;
  /// C order, without gaps.
  static Result<Layout> plain(const Engine& engine, const Dims& dims, DType dtype = DType::kF32);
  /// Strides in elements.
  static Result<Layout> strided(const Engine& engine, const Dims& dims, const Dims& strides,
                                DType dtype = DType::kF32);
  /// Left to the primitive that is made with it.
  static Result<Layout> any(const Engine& engine, const Dims& dims);
  /// Copies what a primitive answers. \pre it is not null.
  static Result<Layout> of(const Engine& engine, const_dnnl_memory_desc_t descriptor);

  /// Null where the elements are not f32.
  [[nodiscard]] const_dnnl_memory_desc_t get() const { return descriptor_.get(); }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] std::size_t element_bytes() const { return bytes_of(dtype_, 1); }
  [[nodiscard]] const Dims& dims() const { return dims_; }
  [[nodiscard]] std::size_t rank() const { return dims_.size(); }
  /// Of each dimension, in elements; empty where the layout is blocked.
  [[nodiscard]] const Dims& strides() const { return strides_; }
  [[nodiscard]] bool is_strided() const { return !strides_.empty(); }
  [[nodiscard]] bool is_plain() const;
  [[nodiscard]] bool is_dense() const;  ///< No gaps, in whatever order.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// `dims` without gaps, dimension after dimension in this layout's order; the blocked one last.
  [[nodiscard]] Result<Layout> dense_like(const Dims& dims) const;
  /// dense_like() of another type. \pre it is strided.
  [[nodiscard]] Result<Layout> dense_like(const Dims& dims, DType dtype) const;
  /// Equal in memory: dimensions of size 1 may have any stride.
  [[nodiscard]] bool same(const Layout& other) const;

  /// The same memory seen otherwise; empty where that needs a copy.
  [[nodiscard]] std::optional<Layout> reshaped(const Dims& dims) const;
  /// The layout of a copy that can be reshaped so, as near to this order as that allows.
  [[nodiscard]] Result<Layout> copy_to_reshape(const Dims& dims) const;
  /// Dimension i of the result is dimension `order[i]` of this.
  [[nodiscard]] std::optional<Layout> permuted(const std::vector<int>& order) const;

 private:
  [[nodiscard]] std::optional<Layout> reshaped_strides(const Dims& dims) const;
  static Result<Layout> take(const Engine& engine, dnnl_memory_desc_t raw);
  void order_by(const Dims& strides);

  const Engine* engine_ = nullptr;
  std::shared_ptr<dnnl_memory_desc> descriptor_;
  Dims dims_, strides_;
  std::vector<std::size_t> order_;  // The dimensions, outermost first.
  DType dtype_ = DType::kF32;
  std::size_t bytes_ = 0;
};

}  // namespace penstock::onednn
