// Window: what convolutions and poolings slide over their spatial dimensions.
#pragma once

#include "penstock/lower/operands.h"

namespace penstock::lower {

/// One entry for each spatial dimension. Dilations count from 1: the kernel's elements are
/// neighbours.
struct Window {
  Dims kernel, strides, dilations, pads_begin, pads_end;

  /// How far the kernel reaches along spatial dimension i.
  [[nodiscard]] std::int64_t reach(std::size_t i) const {
    return (kernel[i] - 1) * dilations[i] + 1;
  }
};

/// By the node's attributes; pads by `auto_pad` as ONNX describes it. `kernel`: where the attribute
/// is left out. `in`, `out`: the spatial dimensions. Poolings of SAME_* whose strides are longer
/// than their windows have pads below 0: see leaves_out_edges().
Window window_of(const graph::Node& node, const Dims& in, const Dims& out, const Dims& kernel,
                 const std::string& auto_pad);
/// With the node's auto_pad.
Window window_of(const graph::Node& node, const Dims& in, const Dims& out, const Dims& kernel);

/// Some pads are below 0, which libraries do not take.
bool leaves_out_edges(const Window& window);

/// Over all of `size`, once.
Window whole_window(const Dims& size);

}  // namespace penstock::lower
