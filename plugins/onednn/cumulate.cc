// CumSum: sums along a dimension, of what came before.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels.h"
#include "operators.h"

namespace penstock::onednn {
namespace {

/// How the rows of a block are summed.
struct Sum {
  Blocks blocks;
  bool exclusive;  ///< A row's own elements are left out of its sum.
  bool reverse;    ///< From the last row to the first.
};

/// An overflow wraps around where T has no sign.
template <typename T>
void sum_block(const Sum& how, const T* from, T* to) {
  const auto& blocks = how.blocks;
  const std::int64_t step = how.reverse ? -blocks.inner : blocks.inner;
  const std::int64_t first = how.reverse ? (blocks.size - 1) * blocks.inner : 0;
  from += first;
  to += first;
  if (how.exclusive) {
    std::fill_n(to, blocks.inner, T());
  } else {
    std::copy_n(from, blocks.inner, to);
  }
  for (std::int64_t row = 1; row < blocks.size; ++row) {
    const T* const sum = to;
    const T* const added = how.exclusive ? from : from + step;
    to += step;
    from += step;
    for (std::int64_t i = 0; i < blocks.inner; ++i) to[i] = sum[i] + added[i];
  }
}

template <typename T>
Kernel sum_kernel(const Sum& how) {
  return [how](std::span<std::byte* const> data) {
    const auto& blocks = how.blocks;
    const std::int64_t elements = blocks.size * blocks.inner;
    for (std::int64_t i = 0; i < blocks.outer; ++i) {
      sum_block(how, as<const T>(data[0]) + i * elements, as<T>(data[1]) + i * elements);
    }
    return Status();
  };
}

Result<Kernel> sum_kernel(DType dtype, const Sum& how) {
  if (dtype == DType::kF32) return sum_kernel<float>(how);
  if (dtype == DType::kI64) return sum_kernel<std::uint64_t>(how);
  if (dtype == DType::kI32) return sum_kernel<std::uint32_t>(how);
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
  const Sum how{.blocks = blocks_around(dims, axis),
                .exclusive = node.int_or("exclusive", 0) != 0,
                .reverse = node.int_or("reverse", 0) != 0};
  PENSTOCK_TRY(auto kernel, sum_kernel(dtype, how));
  PENSTOCK_TRY(Place from, builder.plain_place(node.inputs[0]));
  PENSTOCK_TRY(auto layout, builder.plain(dims, dtype));
  Place target = builder.new_place(std::move(layout));
  builder.append_kernel(std::move(kernel), {std::move(from), target});
  builder.define(node.outputs.front(), std::move(target));
  return {};
}

}  // namespace penstock::onednn
