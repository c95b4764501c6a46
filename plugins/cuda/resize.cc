// Resize: each element of the result is a sum over few of the input, by tables along each
// dimension.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "operators.h"

namespace penstock::cuda {
namespace {

/// What the attributes ask for.
struct Grid {
  std::string mode, transformation, rounding;
  double cubic = -0.75;
  bool exclude_outside = false;
};

/// One dimension of a Resize.
struct Axis {
  std::int64_t in = 1, out = 1;
  double scale = 1;
};

/// Elements of the input, and how much of each: as many for each element of the result.
struct Taps {
  std::size_t each = 1;
  std::vector<std::int32_t> index;
  std::vector<float> weight;
};

/// Where output element i lies in the input: ONNX's coordinate_transformation_mode.
double coordinate(const std::string& transformation, const Axis& axis, double i) {
  const auto in = static_cast<double>(axis.in);
  const auto out = static_cast<double>(axis.out);
  if (transformation == "asymmetric") return i / axis.scale;
  if (transformation == "align_corners") return out == 1 ? 0 : i * (in - 1) / (out - 1);
  if (transformation == "pytorch_half_pixel" && out <= 1) return 0;
  const double half_pixel = (i + 0.5) / axis.scale - 0.5;
  if (transformation != "half_pixel_symmetric") return half_pixel;
  return half_pixel + in / 2 * (1 - out / (axis.scale * in));
}

double nearest(const std::string& rounding, double x) {
  if (rounding == "floor") return std::floor(x);
  if (rounding == "ceil") return std::ceil(x);
  if (rounding == "round_prefer_ceil") return std::floor(x + 0.5);
  return std::ceil(x - 0.5);
}

/// Of the four elements around a point, `t` behind the second: Keys 1981, with the parameter a.
std::array<double, 4> cubic_weights(double t, double a) {
  const auto outer = [a](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  const auto inner = [a](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  return {outer(t + 1), inner(t), inner(1 - t), outer(2 - t)};
}

/// The elements around a point, the first of them, and their weights.
std::pair<double, std::vector<double>> around(const Grid& grid, double x) {
  if (grid.mode == "nearest") return {nearest(grid.rounding, x), {1}};
  const double below = std::floor(x);
  if (grid.mode == "linear") return {below, {1 - (x - below), x - below}};
  const auto four = cubic_weights(x - below, grid.cubic);
  return {below - 1, {four.begin(), four.end()}};
}

Taps taps_of(const Axis& axis, const Grid& grid) {
  Taps taps;
  for (std::int64_t i = 0; i < axis.out; ++i) {
    auto [first, weights] =
        around(grid, coordinate(grid.transformation, axis, static_cast<double>(i)));
    double sum = 0;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const double at = first + static_cast<double>(k);
      const double inside = std::clamp(at, 0.0, static_cast<double>(axis.in - 1));
      if (grid.exclude_outside && at != inside) weights[k] = 0;
      sum += weights[k];
      taps.index.push_back(static_cast<std::int32_t>(inside));
    }
    for (const double weight : weights) taps.weight.push_back(static_cast<float>(weight / sum));
    taps.each = weights.size();
  }
  return taps;
}

/// The scale that the node gives for a dimension; the ratio of the sizes where it gives sizes.
double scale_of(const Builder& builder, const Node& node, std::size_t dimension, double ratio) {
  const Tensor* const given = builder.given(node, 2) ? builder.constant(node.inputs[2]) : nullptr;
  if (given == nullptr || given->dtype() != DType::kF32) return ratio;
  const auto scales = given->as<float>();
  const std::size_t rank = builder.dims(node.inputs[0]).size();
  Dims axes = node.ints_or("axes", {});
  for (std::size_t i = 0; node.find("axes") == nullptr && i < rank; ++i) {
    axes.push_back(static_cast<std::int64_t>(i));
  }
  for (std::size_t i = 0; i < axes.size() && i < scales.size(); ++i) {
    if (from_front(axes[i], rank) == dimension) return static_cast<double>(scales[i]);
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

/// A table on the device, and the name by which the kernel reads it.
template <typename T>
void add_table(Builder& builder, KernelText& text, const std::string& name, DType dtype,
               const std::vector<T>& table) {
  Tensor tensor = Tensor::allocate(dtype, {static_cast<std::int64_t>(table.size())});
  std::ranges::copy(table, tensor.as<T>().begin());
  text.read(name, builder.new_constant(std::move(tensor)));
}

}  // namespace

Status lower_resize(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  PENSTOCK_TRY(const Grid grid, grid_of(node));
  PENSTOCK_TRY(const auto from, builder.place(node.inputs.front()));
  if (from.dtype != DType::kF32) return unsupported("is computed of f32 only");
  const Expression target = builder.new_place(result);
  const Dims strides = contiguous_strides(from.dims);
  KernelText text;
  text.read("x", from);
  std::string at = "0u";
  std::string weight = "1.0f";
  std::string loops;
  for (std::size_t d = 0; d < from.dims.size(); ++d) {
    const auto ratio = static_cast<double>(target.dims[d]) / static_cast<double>(from.dims[d]);
    const Axis axis{from.dims[d], target.dims[d], scale_of(builder, node, d, ratio)};
    if (axis.in == axis.out && axis.scale == 1) {
      at += concat(" + i", d, " * ", strides[d], "u");
      continue;
    }
    const Taps taps = taps_of(axis, grid);
    add_table(builder, text, concat("index", d), DType::kI32, taps.index);
    add_table(builder, text, concat("weight", d), DType::kF32, taps.weight);
    loops += concat("for (unsigned k", d, " = i", d, " * ", taps.each, "u; k", d, " < (i", d,
                    " + 1u) * ", taps.each, "u; ++k", d, ") ");
    at += concat(" + (unsigned)index", d, "(k", d, ") * ", strides[d], "u");
    weight += concat(" * weight", d, "(k", d, ")");
  }
  text.write("result", target);
  text.each_element(count_of(target.dims));
  text.line(index_lines(target.dims));
  text.line("float sum = 0.0f;");
  text.line(concat(loops, "sum += x(", at, ") * (", weight, ");"));
  text.line("result(i) = sum;");
  PENSTOCK_CHECK_OK(builder.append(text.finish()));
  return builder.define(result, target);
}

}  // namespace penstock::cuda
