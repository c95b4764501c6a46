// Resize: by the library's resampling where its one grid is the one asked for, else by a product
// with a matrix of weights along each dimension.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "fusion.h"
#include "operators.h"
#include "pointwise.h"

namespace penstock::onednn {
namespace {

/// What the attributes ask for.
struct Grid {
  std::string mode, transformation, rounding;
  double cubic = -0.75;
  bool exclude_outside = false;
};

/// One dimension of a Resize.
struct Axis {
  double in = 1, out = 1, scale = 1;

  [[nodiscard]] double inside(double x) const { return std::clamp(x, 0.0, in - 1); }
};

/// Where output element i lies in the input: ONNX's coordinate_transformation_mode.
double coordinate(const std::string& transformation, const Axis& axis, double i) {
  if (transformation == "asymmetric") return i / axis.scale;
  if (transformation == "align_corners") {
    return axis.out == 1 ? 0 : i * (axis.in - 1) / (axis.out - 1);
  }
  if (transformation == "pytorch_half_pixel" && axis.out <= 1) return 0;
  const double half_pixel = (i + 0.5) / axis.scale - 0.5;
  if (transformation != "half_pixel_symmetric") return half_pixel;
  return half_pixel + axis.in / 2 * (1 - axis.out / (axis.scale * axis.in));
}

double nearest(const std::string& rounding, double x) {
  if (rounding == "floor") return std::floor(x);
  if (rounding == "ceil") return std::ceil(x);
  if (rounding == "round_prefer_ceil") return std::floor(x + 0.5);
  return std::ceil(x - 0.5);
}

/// oneDNN's grid is half_pixel by the ratio of the sizes; nearest rounds halves away from zero.
bool agrees(const Axis& axis, const Grid& grid) {
  constexpr double kClose = 1e-5;
  if (grid.mode == "cubic") return false;
  for (double i = 0; i < axis.out; ++i) {
    const double asked = coordinate(grid.transformation, axis, i);
    const double done = (i + 0.5) * axis.in / axis.out - 0.5;
    if (grid.mode == "linear") {
      if (std::abs(axis.inside(asked) - axis.inside(done)) > kClose) return false;
      continue;
    }
    // A half is a matter of rounding errors, wherever it should go.
    const double half = std::abs(done - std::floor(done) - 0.5);
    const bool is_close = half < kClose && done > 0 && done < axis.in - 1;
    const double wanted = axis.inside(nearest(grid.rounding, asked));
    if (is_close || wanted != axis.inside(std::round(done))) return false;
  }
  return true;
}

/// Of the four elements around a point, `t` behind the second: Keys 1981, with the parameter a.
std::array<double, 4> cubic_weights(double t, double a) {
  const auto outer = [a](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  const auto inner = [a](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  return {outer(t + 1), inner(t), inner(1 - t), outer(2 - t)};
}

/// Row i: how much of each input element output element i is.
std::vector<float> weights_of(const Axis& axis, const Grid& grid) {
  const auto columns = static_cast<std::size_t>(axis.in);
  std::vector<double> weights(columns * static_cast<std::size_t>(axis.out));
  for (std::size_t i = 0; i * columns < weights.size(); ++i) {
    const double x = coordinate(grid.transformation, axis, static_cast<double>(i));
    const auto add = [&](double at, double weight) {
      if (grid.exclude_outside && at != axis.inside(at)) return;
      weights[i * columns + static_cast<std::size_t>(axis.inside(at))] += weight;
    };
    const double below = std::floor(x);
    const double t = x - below;
    if (grid.mode == "nearest") {
      add(nearest(grid.rounding, x), 1);
    } else if (grid.mode == "linear") {
      add(below, 1 - t);
      add(below + 1, t);
    } else {
      const auto four = cubic_weights(t, grid.cubic);
      for (std::size_t k = 0; k < four.size(); ++k) {
        add(below - 1 + static_cast<double>(k), four[k]);
      }
      double sum = 0;
      for (std::size_t k = 0; k < columns; ++k) sum += weights[i * columns + k];
      for (std::size_t k = 0; k < columns; ++k) weights[i * columns + k] /= sum;
    }
  }
  return {weights.begin(), weights.end()};
}

/// The scale that the node gives for a dimension; the ratio of the sizes where it gives sizes.
double scale_of(const Builder& builder, const Node& node, std::size_t dimension, double ratio) {
  if (node.inputs.size() < 3 || builder.constant(node.inputs[2]) == nullptr) return ratio;
  const auto scales = builder.floats(node.inputs[2]);
  const auto rank = static_cast<std::int64_t>(builder.dims(node.inputs[0]).size());
  Dims axes = node.ints_or("axes", {});
  for (std::int64_t i = 0; node.find("axes") == nullptr && i < rank; ++i) axes.push_back(i);
  for (std::size_t i = 0; i < axes.size() && i < scales.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i] < 0 ? axes[i] + rank : axes[i]);
    if (axis == dimension) return static_cast<double>(scales[i]);
  }
  return ratio;
}

Result<Grid> grid_of(const Node& node) {
  Grid grid{.mode = string_or(node, "mode", "nearest"),
            .transformation = string_or(node, "coordinate_transformation_mode", "half_pixel"),
            .rounding = string_or(node, "nearest_mode", "round_prefer_floor"),
            .cubic = static_cast<double>(float_or(node, "cubic_coeff_a", -0.75F)),
            .exclude_outside = node.int_or("exclude_outside", 0) != 0};
  if (grid.transformation == "tf_crop_and_resize" || node.int_or("antialias", 0) != 0 ||
      string_or(node, "keep_aspect_ratio_policy", "stretch") != "stretch") {
    return unsupported("takes no crop, antialias or aspect ratio policy");
  }
  return grid;
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
  PENSTOCK_TRY(const Grid grid, grid_of(node));
  const Dims in = builder.dims(node.inputs[0]);
  const Dims out = builder.dims(node.outputs.front());
  std::vector<Axis> axes;
  bool by_resampling = in.size() >= 3 && in.size() <= 5 && in[0] == out[0] && in[1] == out[1];
  for (std::size_t i = 0; i < in.size(); ++i) {
    Axis axis{.in = static_cast<double>(in[i]), .out = static_cast<double>(out[i])};
    axis.scale = scale_of(builder, node, i, axis.out / axis.in);
    by_resampling = by_resampling && agrees(axis, grid);
    axes.push_back(axis);
  }
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
    if (axes[i].in == axes[i].out && axes[i].scale == 1) continue;
    PENSTOCK_TRY(place, stretched(builder, place, i, axes[i], grid));
  }
  builder.define(node.outputs.front(), std::move(place));
  return {};
}

}  // namespace penstock::onednn
