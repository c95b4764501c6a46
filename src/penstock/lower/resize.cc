// Works out coordinates and weights as ONNX's Resize describes them.
#include "penstock/lower/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "penstock/lower/operands.h"

namespace penstock::lower {
namespace {

/// Of the four elements around a point, `t` behind the second: Keys 1981, with the parameter a.
std::array<double, 4> cubic_weights(double t, double a) {
  const auto outer = [a](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  const auto inner = [a](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  return {outer(t + 1), inner(t), inner(1 - t), outer(2 - t)};
}

/// The elements around a point, the first of them, and their weights.
std::pair<double, std::vector<double>> around(const Grid& grid, double x) {
  if (grid.mode == "nearest") return {nearest(grid, x), {1}};
  const double below = std::floor(x);
  if (grid.mode == "linear") return {below, {1 - (x - below), x - below}};
  const auto four = cubic_weights(x - below, grid.cubic);
  return {below - 1, {four.begin(), four.end()}};
}

/// By dimension; those without one: 0.
std::vector<double> given_scales(const graph::Graph& graph, const graph::Node& node,
                                 std::size_t rank) {
  std::vector<double> scales(rank);
  const Tensor* given = node.inputs.size() > 2 ? constant(graph, node.inputs[2]) : nullptr;
  if (given == nullptr || given->dtype() != DType::kF32) return scales;
  Dims axes = node.ints_or("axes", {});
  for (std::size_t i = 0; node.find("axes") == nullptr && i < rank; ++i) {
    axes.push_back(static_cast<std::int64_t>(i));
  }
  const auto values = given->as<float>();
  for (std::size_t i = 0; i < std::min(axes.size(), values.size()); ++i) {
    scales[from_front(axes[i], rank)] = static_cast<double>(values[i]);
  }
  return scales;
}

}  // namespace

double Axis::inside(double x) const {
  return std::clamp(x, 0.0, in - 1);
}

Result<Grid> grid_of(const graph::Node& node) {
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

std::vector<Axis> axes_of(const graph::Graph& graph, const graph::Node& node) {
  const Dims in = dims_of(graph.value(node.inputs.front()).type);
  const Dims out = dims_of(graph.value(node.outputs.front()).type);
  const auto scales = given_scales(graph, node, in.size());
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < in.size(); ++i) {
    Axis axis{.in = static_cast<double>(in[i]), .out = static_cast<double>(out[i])};
    axis.scale = scales[i] != 0 ? scales[i] : axis.out / axis.in;
    axes.push_back(axis);
  }
  return axes;
}

// In float32, as engines compute it: where an element lies halfway between two, the error of
// rounding decides which of them is the nearest.
double coordinate(const Grid& grid, const Axis& axis, double i) {
  const auto at = static_cast<float>(i), scale = static_cast<float>(axis.scale);
  const auto in = static_cast<float>(axis.in), out = static_cast<float>(axis.out);
  if (grid.transformation == "asymmetric") return static_cast<double>(at / scale);
  if (grid.transformation == "align_corners") {
    return out == 1 ? 0 : static_cast<double>(at * (in - 1) / (out - 1));
  }
  if (grid.transformation == "pytorch_half_pixel" && out <= 1) return 0;
  if (grid.transformation != "half_pixel_symmetric") {
    return static_cast<double>((at + 0.5F) / scale - 0.5F);
  }
  const float offset = in / 2 * (1 - out / (scale * in));
  return static_cast<double>(offset) + (i + 0.5) / static_cast<double>(scale) - 0.5;
}

double nearest(const Grid& grid, double x) {
  if (grid.rounding == "floor") return std::floor(x);
  if (grid.rounding == "ceil") return std::ceil(x);
  if (grid.rounding == "round_prefer_ceil") return std::floor(x + 0.5);
  return std::ceil(x - 0.5);
}

Taps taps_of(const Axis& axis, const Grid& grid) {
  Taps taps;
  for (double i = 0; i < axis.out; ++i) {
    auto [first, weights] = around(grid, coordinate(grid, axis, i));
    double sum = 0;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const double at = first + static_cast<double>(k);
      const double inside = axis.inside(at);
      // Of the other modes ONNX leaves nothing out: an edge goes on for ever.
      if (grid.exclude_outside && grid.mode == "cubic" && at != inside) weights[k] = 0;
      sum += weights[k];
      taps.index.push_back(static_cast<std::int32_t>(inside));
    }
    for (const double weight : weights) taps.weight.push_back(weight / sum);
    taps.each = weights.size();
  }
  return taps;
}

}  // namespace penstock::lower
