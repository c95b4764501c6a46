// CumSum: sums along a dimension, of what came before.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels.h"
#include "operators.h"

namespace penstock::onednn {
namespace {

/// `outer` blocks of `size` rows of `inner` elements, which are summed row by row.
struct Blocks {
  std::int64_t outer, size, inner;
  bool exclusive;  ///< A row's own elements are left out of its sum.
  bool reverse;    ///< From the last row to the first.
};

/// An overflow wraps around where T has no sign.
template <typename T>
void sum_block(const Blocks& blocks, const T* from, T* to) {
  const std::int64_t step = blocks.reverse ? -blocks.inner : blocks.inner;
  const std::int64_t first = blocks.reverse ? (blocks.size - 1) * blocks.inner : 0;
  from += first;
  to += first;
  if (blocks.exclusive) {
    std::fill_n(to, blocks.inner, T());
  } else {
    std::copy_n(from, blocks.inner, to);
  }
  for (std::int64_t row = 1; row < blocks.size; ++row) {
    const T* const sum = to;
    const T* const added = blocks.exclusive ? from : from + step;
    to += step;
    from += step;
    for (std::int64_t i = 0; i < blocks.inner; ++i) to[i] = sum[i] + added[i];
  }
}

template <typename T>
Kernel sum_kernel(const Blocks& blocks) {
  return [blocks](std::span<std::byte* const> data) {
    const std::int64_t elements = blocks.size * blocks.inner;
    for (std::int64_t i = 0; i < blocks.outer; ++i) {
      sum_block(blocks, as<const T>(data[0]) + i * elements, as<T>(data[1]) + i * elements);
    }
    return Status();
  };
}

Result<Kernel> sum_kernel(DType dtype, const Blocks& blocks) {
  if (dtype == DType::kF32) return sum_kernel<float>(blocks);
  if (dtype == DType::kI64) return sum_kernel<std::uint64_t>(blocks);
  if (dtype == DType::kI32) return sum_kernel<std::uint32_t>(blocks);
  return unsupported("is computed of f32, i64 or i32, found ", to_string(dtype));
}

}  // namespace

Status lower_cumulative_sum(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const auto given = builder.integers(node.inputs[1]);
  if (!given || given->size() != 1) return unsupported("takes a constant axis");
  const DType dtype = builder.dtype(node.inputs[0]);
  const Dims dims = at_least_1d(builder.dims(node.inputs[0]));
  const std::size_t axis = from_front(given->front(), dims.size());
  const Blocks blocks{.outer = count_of(std::span(dims).first(axis)),
                      .size = dims[axis],
                      .inner = count_of(std::span(dims).subspan(axis + 1)),
                      .exclusive = node.int_or("exclusive", 0) != 0,
                      .reverse = node.int_or("reverse", 0) != 0};
  PENSTOCK_TRY(auto kernel, sum_kernel(dtype, blocks));
  PENSTOCK_TRY(Place from, builder.plain_place(node.inputs[0]));
  PENSTOCK_TRY(auto layout, builder.plain(dims, dtype));
  Place target = builder.new_place(std::move(layout));
  builder.append_kernel(std::move(kernel), {std::move(from), target});
  builder.define(node.outputs.front(), std::move(target));
  return {};
}

}  // namespace penstock::onednn
