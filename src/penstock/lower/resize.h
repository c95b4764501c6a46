// Which elements of its input a Resize reads for each of its result, and how much of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/graph/graph.h"

namespace penstock::lower {

/// What the attributes ask for, in ONNX's words.
struct Grid {
  std::string mode, transformation, rounding;
  double cubic = -0.75;  ///< Coefficient a of Keys, 1981.
  bool exclude_outside = false;
};

/// One dimension, in elements.
struct Axis {
  double in = 1, out = 1, scale = 1;

  /// It keeps its elements.
  [[nodiscard]] bool keeps() const { return in == out && scale == 1; }
  /// The nearest place within the input.
  [[nodiscard]] double inside(double x) const;
};

/// For each element of the result as many of the input.
struct Taps {
  std::size_t each = 1;
  std::vector<std::int32_t> index;  ///< May say one more than once.
  std::vector<double> weight;  ///< Beside `index`; of each element of the result they sum to 1.
};

/// \error kUnimplemented  crop, antialias, an aspect ratio policy
Result<Grid> grid_of(const graph::Node& node);

/// Each dimension of a Resize. The scale is what the node gives; the ratio of the sizes where it
/// gives sizes. \pre scales are constant; the types of input and output are fixed.
std::vector<Axis> axes_of(const graph::Graph& graph, const graph::Node& node);

/// Where output element i lies in the input: ONNX's coordinate_transformation_mode.
double coordinate(const Grid& grid, const Axis& axis, double i);
/// The element that nearest_mode takes of a coordinate; it may lie outside.
double nearest(const Grid& grid, double x);

Taps taps_of(const Axis& axis, const Grid& grid);

}  // namespace penstock::lower
