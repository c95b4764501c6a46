// Reductions of dimensions to a number: sums, means, products, norms, extremes.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <utility>

#include "fusion.h"
#include "kernels.h"
#include "operators.h"
#include "pointwise.h"
#include "pooling.h"
#include "written_norm.h"

namespace penstock::onednn {
namespace {

/// As the library knows it; `p`: the exponent of a norm.
struct Reduction {
  dnnl_alg_kind_t algorithm = dnnl_alg_kind_undef;
  float p = 0;
};

Reduction reduction_of(std::string_view op) {
  if (op == "ReduceL1") return {dnnl_reduction_norm_lp_sum, 1};
  if (op == "ReduceL2") return {dnnl_reduction_norm_lp_sum, 2};
  if (op == "ReduceMax") return {dnnl_reduction_max};
  if (op == "ReduceMin") return {dnnl_reduction_min};
  if (op == "ReduceProd") return {dnnl_reduction_mul};
  if (op == "ReduceSum") return {dnnl_reduction_sum};
  if (op == "ReduceSumSquare") return {dnnl_reduction_norm_lp_power_p_sum, 2};
  return {dnnl_reduction_mean};
}

/// Whether it makes one element of itself: that element.
bool leaves_one_element(std::string_view op) {
  return op != "ReduceL1" && op != "ReduceL2" && op != "ReduceSumSquare";
}

/// Counted from the front; an input from opset 13 (ReduceSum) or 18 on. Empty: all of them.
Result<std::vector<std::size_t>> axes_of(const Builder& builder, const Node& node,
                                         std::size_t rank) {
  std::vector<std::int64_t> axes = node.ints_or("axes", {});
  if (node.inputs.size() > 1 && node.inputs[1] != ValueId::kNone) {
    auto given = builder.integers(node.inputs[1]);
    if (!given) return unsupported("takes constant axes");
    axes = *std::move(given);
  }
  std::vector<std::size_t> found;
  for (const auto axis : axes) {
    found.push_back(
        static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis));
  }
  if (found.empty()) {
    for (std::size_t i = 0; i < rank; ++i) found.push_back(i);
  }
  return found;
}

/// All spatial dimensions and no other: a pooling, which the library does better.
bool is_global_pooling(const std::vector<std::size_t>& axes, std::size_t rank) {
  if (rank < 3 || rank > 5 || axes.size() + 2 != rank) return false;
  return std::ranges::all_of(axes, [](std::size_t axis) { return axis >= 2; });
}

/// Each result begins with `first`, and becomes finish(result) at the end. Operands of the walk:
/// result, input.
template <typename Combine, typename Finish = std::identity>
Kernel reduction_kernel(Walk walk, std::int64_t results, float first, Combine combine,
                        Finish finish = {}) {
  return [=, walk = std::move(walk)](std::span<std::byte* const> data) {
    float* const all = as<float>(data[1]);
    std::fill_n(all, results, first);
    const std::int64_t count = walk.dims.back();
    const std::int64_t step = walk.strides[1].back();
    for_each_row<2>(walk, [&](const auto& at) {
      const float* const from = as<const float>(data[0]) + at[1];
      float* const to = all + at[0];
      if (walk.strides[0].back() == 0) {
        float one = *to;
        for (std::int64_t i = 0; i < count; ++i) one = combine(one, from[i * step]);
        *to = one;
      } else if (walk.strides[0].back() == 1 && step == 1) {
        for (std::int64_t i = 0; i < count; ++i) to[i] = combine(to[i], from[i]);
      } else {
        for (std::int64_t i = 0; i < count; ++i) {
          float& one = to[i * walk.strides[0].back()];
          one = combine(one, from[i * step]);
        }
      }
    });
    if constexpr (!std::is_same_v<Finish, std::identity>) {
      std::transform(all, all + results, all, finish);
    }
    return Status();
  };
}

/// `of_each`: how many elements become one.
Kernel kernel_of(std::string_view op, Walk walk, std::int64_t results, std::int64_t of_each) {
  const auto reduce = [&](float first, auto combine, auto... finish) {
    return reduction_kernel(std::move(walk), results, first, combine, finish...);
  };
  const auto add_square = [](float a, float b) { return a + b * b; };
  if (op == "ReduceL1") return reduce(0, [](float a, float b) { return a + std::abs(b); });
  if (op == "ReduceL2") return reduce(0, add_square, [](float sum) { return std::sqrt(sum); });
  if (op == "ReduceMax") {
    return reduce(-kInfinity, [](float a, float b) { return std::max(a, b); });
  }
  if (op == "ReduceMin") {
    return reduce(kInfinity, [](float a, float b) { return std::min(a, b); });
  }
  if (op == "ReduceProd") return reduce(1, std::multiplies<>());
  if (op == "ReduceSum") return reduce(0, std::plus<>());
  if (op == "ReduceSumSquare") return reduce(0, add_square);
  const float scale = 1 / static_cast<float>(of_each);
  return reduce(0, std::plus<>(), [scale](float sum) { return sum * scale; });
}

/// By loops: the library reduces dimensions that do not lie innermost by slow, general code.
Status reduce_by_loops(Builder& builder, const Node& node, const Dims& out) {
  PENSTOCK_TRY(const Place from, builder.strided_place(node.inputs[0]));
  PENSTOCK_TRY(auto layout, from.layout.dense_like(out));
  const Place to = builder.new_place(std::move(layout));
  const Dims& in = from.layout.dims();
  Walk walk = walk_of(in, {broadcast_strides(to.layout, in), from.layout.strides()});
  const auto results = count_of(out);
  builder.append_kernel(kernel_of(node.op, std::move(walk), results, count_of(in) / results),
                        {from, to});
  PENSTOCK_TRY(Place result, builder.reshaped(to, at_least_1d(builder.dims(node.outputs[0]))));
  builder.define(node.outputs[0], std::move(result));
  return {};
}

}  // namespace

Status lower_reduction(Builder& builder, NodeId id) {
  if (const auto norm = written_norm_at(builder, id)) return lower_written_norm(builder, *norm);
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  const Dims in = at_least_1d(builder.dims(node.inputs[0]));
  PENSTOCK_TRY(const auto axes, axes_of(builder, node, in.size()));
  const bool axes_left_out = node.ints_or("axes", {}).empty() &&
                             (node.inputs.size() < 2 || node.inputs[1] == ValueId::kNone ||
                              builder.integers(node.inputs[1])->empty());
  if (axes_left_out && node.int_or("noop_with_empty_axes", 0) != 0) {
    if (!leaves_one_element(node.op)) return unsupported("takes noop_with_empty_axes=0");
    return lower_reshape(builder, id);
  }
  Dims out = in;
  for (const auto axis : axes) out[axis] = 1;
  if (out == in) {
    return leaves_one_element(node.op) ? lower_reshape(builder, id)
                                       : reduce_by_loops(builder, node, out);
  }
  PENSTOCK_TRY(const Place from, builder.dense_place(node.inputs[0]));
  const auto [algorithm, p] = reduction_of(node.op);
  const bool pools = algorithm == dnnl_reduction_mean || algorithm == dnnl_reduction_max;
  if (pools && is_global_pooling(axes, in.size())) {
    return append_pooling(
        builder, id,
        algorithm == dnnl_reduction_max ? dnnl_pooling_max : dnnl_pooling_avg_exclude_padding, from,
        lower::whole_window(spatial_of(in)), out);
  }
  PENSTOCK_TRY(const auto target, builder.any(out));
  Fusion fusion{.node = id, .result = result, .chain = chain_after(builder, result), .dims = out};
  fusion.make = [&](const_dnnl_primitive_attr_t attributes) {
    return builder.describe([&](dnnl_primitive_desc_t* raw) {
      return builder.api().reduction_primitive_desc_create(
          raw, builder.engine().cpu, algorithm, from.layout.get(), target.get(), p, 0, attributes);
    });
  };
  PENSTOCK_TRY(const auto plain_attributes, builder.attributes(nullptr));
  PENSTOCK_TRY(const auto alone, fusion.make(plain_attributes.get()));
  if (is_reference(builder, alone)) return reduce_by_loops(builder, node, out);
  PENSTOCK_TRY(auto fused, fuse(builder, fusion));
  return finish(builder, fusion, std::move(fused), {{DNNL_ARG_SRC, from}});
}

}  // namespace penstock::onednn
