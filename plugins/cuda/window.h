// Window: what convolutions and poolings slide over their spatial dimensions.
#pragma once

#include <string>

#include "builder.h"

namespace penstock::cuda {

/// One entry for each spatial dimension.
struct Window {
  Dims kernel, strides, dilations, pads_begin, pads_end;

  /// Whether cuDNN, which pads both ends alike, has it.
  [[nodiscard]] bool is_symmetric() const { return pads_begin == pads_end; }
};

/// By the node's attributes, auto_pad included. `kernel`: where the attribute is left out.
/// `in`, `out`: the spatial dimensions.
Window window_of(const Node& node, const Dims& in, const Dims& out, const Dims& kernel);

/// Without the batch and the channels.
Dims spatial_of(const Dims& dims);

/// The text of loops over the window's elements inside the input: `body` sees `at`, the element's
/// index in an image of the input, and `tap`, its number in the window. Before it, i2, i3, ... are
/// the indices in an image of the result.
std::string window_loops(const Window& window, const Dims& in, const std::string& body);

}  // namespace penstock::cuda
