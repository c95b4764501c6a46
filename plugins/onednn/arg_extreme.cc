// ArgMax and ArgMin: where along a dimension the largest or the smallest number lies.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "kernels.h"
#include "operators.h"

namespace penstock::onednn {
namespace {

/// Chooses a row of a block for each column. `better(a, b)`: a row of `a` is chosen instead of an
/// earlier one of `b`. `best` holds a row.
template <typename T, typename Better>
void choose_rows(const Blocks& blocks, const T* from, std::int64_t* to, T* best, Better better) {
  std::copy_n(from, blocks.inner, best);
  std::fill_n(to, blocks.inner, 0);
  for (std::int64_t row = 1; row < blocks.size; ++row) {
    from += blocks.inner;
    for (std::int64_t i = 0; i < blocks.inner; ++i) {
      const bool chosen = better(from[i], best[i]);
      best[i] = chosen ? from[i] : best[i];
      to[i] = chosen ? row : to[i];
    }
  }
}

/// Of the input, the result and room for a row.
template <typename T, typename Better>
Kernel choice_kernel(const Blocks& blocks, Better better) {
  return [blocks, better](std::span<std::byte* const> data) {
    for (std::int64_t i = 0; i < blocks.outer; ++i) {
      choose_rows(blocks, as<const T>(data[0]) + i * blocks.size * blocks.inner,
                  as<std::int64_t>(data[1]) + i * blocks.inner, as<T>(data[2]), better);
    }
    return Status();
  };
}

template <typename T>
Kernel choice_kernel(const Node& node, const Blocks& blocks) {
  const bool last = node.int_or("select_last_index", 0) != 0;
  if (node.op == "ArgMax") {
    if (last) return choice_kernel<T>(blocks, std::greater_equal<>());
    return choice_kernel<T>(blocks, std::greater<>());
  }
  if (last) return choice_kernel<T>(blocks, std::less_equal<>());
  return choice_kernel<T>(blocks, std::less<>());
}

Result<Kernel> choice_kernel(const Node& node, DType dtype, const Blocks& blocks) {
  if (dtype == DType::kF32) return choice_kernel<float>(node, blocks);
  if (dtype == DType::kI64) return choice_kernel<std::int64_t>(node, blocks);
  if (dtype == DType::kI32) return choice_kernel<std::int32_t>(node, blocks);
  if (dtype == DType::kI8) return choice_kernel<std::int8_t>(node, blocks);
  if (dtype == DType::kU8) return choice_kernel<std::uint8_t>(node, blocks);
  return unsupported("is not computed of ", to_string(dtype));
}

}  // namespace

Status lower_arg_extreme(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  const Dims dims = at_least_1d(builder.dims(node.inputs[0]));
  const std::size_t axis = from_front(node.int_or("axis", 0), dims.size());
  const Blocks blocks = blocks_around(dims, axis);
  PENSTOCK_TRY(auto kernel, choice_kernel(node, builder.dtype(node.inputs[0]), blocks));
  PENSTOCK_TRY(Place from, builder.plain_place(node.inputs[0]));
  PENSTOCK_TRY(auto layout, builder.plain(at_least_1d(builder.dims(result)), DType::kI64));
  PENSTOCK_TRY(auto row, builder.plain({blocks.inner}, builder.dtype(node.inputs[0])));
  Place target = builder.new_place(std::move(layout));
  builder.append_kernel(std::move(kernel),
                        {std::move(from), target, builder.new_place(std::move(row))});
  builder.define(result, std::move(target));
  return {};
}

}  // namespace penstock::onednn
