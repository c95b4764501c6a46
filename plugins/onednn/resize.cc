// Resize: by the library's resampling where its one grid is the one asked for, else by a product
// with a matrix of weights along each dimension.
#include "penstock/lower/resize.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fusion.h"
#include "operators.h"
#include "pointwise.h"

namespace penstock::onednn {
namespace {

using lower::Axis;
using lower::Grid;

/// oneDNN's grid is half_pixel by the ratio of the sizes; nearest rounds halves away from zero.
bool agrees(const Axis& axis, const Grid& grid) {
  constexpr double kClose = 1e-5;
  if (grid.mode == "cubic") return false;
  for (double i = 0; i < axis.out; ++i) {
    const double asked = lower::coordinate(grid, axis, i);
    const double done = (i + 0.5) * axis.in / axis.out - 0.5;
    if (grid.mode == "linear") {
      if (std::abs(axis.inside(asked) - axis.inside(done)) > kClose) return false;
      continue;
    }
    // A half is a matter of rounding errors, wherever it should go.
    const double half = std::abs(done - std::floor(done) - 0.5);
    const bool is_close = half < kClose && done > 0 && done < axis.in - 1;
    const double wanted = axis.inside(lower::nearest(grid, asked));
    if (is_close || wanted != axis.inside(std::round(done))) return false;
  }
  return true;
}

/// Row i: how much of each input element output element i is.
std::vector<float> weights_of(const Axis& axis, const Grid& grid) {
  const auto columns = static_cast<std::size_t>(axis.in);
  std::vector<double> weights(columns * static_cast<std::size_t>(axis.out));
  const auto taps = lower::taps_of(axis, grid);
  for (std::size_t i = 0; i < taps.index.size(); ++i) {
    weights[i / taps.each * columns + static_cast<std::size_t>(taps.index[i])] += taps.weight[i];
  }
  return {weights.begin(), weights.end()};
}

std::vector<float> transposed(const std::vector<float>& matrix, std::int64_t columns) {
  const auto width = static_cast<std::size_t>(columns);
  const std::size_t height = matrix.size() / width;
  std::vector<float> result(matrix.size());
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    result[i % width * height + i / width] = matrix[i];
  }
  return result;
}

/// y = R x along one dimension. The others, in memory, are those outside of it and those inside.
Result<Place> stretched(Builder& builder, const Place& from, std::size_t dimension,
                        const Axis& axis, const Grid& grid) {
  const Layout& layout = from.layout;
  std::int64_t outside = 1;
  std::int64_t inside = 1;
  for (std::size_t i = 0; i < layout.rank(); ++i) {
    if (i == dimension || layout.dims()[i] == 1) continue;
    (layout.strides()[i] > layout.strides()[dimension] ? outside : inside) *= layout.dims()[i];
  }
  const auto in = layout.dims()[dimension];
  Dims dims = layout.dims();
  const auto out = dims[dimension] = static_cast<std::int64_t>(axis.out);
  PENSTOCK_TRY(auto result, layout.dense_like(dims));
  Place to = builder.new_place(std::move(result));
  auto weights = weights_of(axis, grid);
  const bool innermost = inside == 1;
  // [outside, in] times the transposed matrix; else the matrix times each [in, inside].
  PENSTOCK_TRY(const Place matrix,
               builder.new_constant(innermost ? transposed(weights, in) : weights,
                                    innermost ? Dims{in, out} : Dims{1, out, in}));
  Place x = from;
  Place y = to;
  PENSTOCK_TRY(x.layout, builder.plain(innermost ? Dims{outside, in} : Dims{outside, in, inside}));
  PENSTOCK_TRY(y.layout,
               builder.plain(innermost ? Dims{outside, out} : Dims{outside, out, inside}));
  const Place& a = innermost ? x : matrix;
  const Place& b = innermost ? matrix : x;
  PENSTOCK_TRY(const auto attributes, builder.attributes(nullptr));
  PENSTOCK_TRY(const auto descriptor, builder.describe([&](dnnl_primitive_desc_t* raw) {
    return builder.api().matmul_primitive_desc_create(raw, builder.engine().cpu, a.layout.get(),
                                                      b.layout.get(), nullptr, y.layout.get(),
                                                      attributes.get());
  }));
  PENSTOCK_CHECK_OK(
      builder.append(descriptor, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, y}}));
  return to;
}

Status append_resampling(Builder& builder, NodeId id, const Grid& grid) {
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  const Dims out = builder.dims(result);
  PENSTOCK_TRY(const Place from, builder.dense_place(node.inputs[0]));
  PENSTOCK_TRY(const auto target, builder.any(out));
  const auto algorithm = grid.mode == "nearest" ? dnnl_resampling_nearest : dnnl_resampling_linear;
  Fusion fusion{.node = id, .result = result, .chain = chain_after(builder, result), .dims = out};
  fusion.make = [&](const_dnnl_primitive_attr_t attributes) {
    return builder.describe([&](dnnl_primitive_desc_t* raw) {
      return builder.api().resampling_forward_primitive_desc_create(
          raw, builder.engine().cpu, dnnl_forward_inference, algorithm, nullptr, from.layout.get(),
          target.get(), attributes);
    });
  };
  PENSTOCK_TRY(auto fused, fuse(builder, fusion));
  return finish(builder, fusion, std::move(fused), {{DNNL_ARG_SRC, from}});
}

}  // namespace

Status lower_resize(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  if (builder.opset() < 11) return unsupported("from opset 11 on, found ", builder.opset());
  PENSTOCK_TRY(const Grid grid, lower::grid_of(node));
  const Dims in = builder.dims(node.inputs[0]);
  const Dims out = builder.dims(node.outputs.front());
  const auto axes = lower::axes_of(builder.graph(), node);
  const bool by_resampling =
      in.size() >= 3 && in.size() <= 5 && in[0] == out[0] && in[1] == out[1] &&
      std::ranges::all_of(axes, [&](const Axis& axis) { return agrees(axis, grid); });
  if (in == out && by_resampling) return lower_reshape(builder, id);
  if (by_resampling) return append_resampling(builder, id, grid);
  PENSTOCK_TRY(Place place, builder.strided_place(node.inputs[0]));
  // Products of a few columns are slow: such an image is better plain.
  constexpr std::int64_t kFewChannels = 16;
  if (!place.layout.is_dense() || (in.size() > 2 && in[1] < kFewChannels)) {
    PENSTOCK_TRY(place, builder.plain_place(node.inputs[0]));
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    // A dimension that keeps its size keeps its elements.
    if (axes[i].keeps()) continue;
    PENSTOCK_TRY(place, stretched(builder, place, i, axes[i], grid));
  }
  builder.define(node.outputs.front(), std::move(place));
  return {};
}

}  // namespace penstock::onednn
