// Reads a window off a node.
#include "penstock/lower/window.h"

#include <algorithm>

namespace penstock::lower {
namespace {

/// What SAME_* pads in all. Engines pad poolings as if their windows were not dilated, and leave
/// out the edges (less than 0) where strides are longer than windows.
std::int64_t same_padding(const graph::Node& node, const Window& window, std::size_t i,
                          std::int64_t in, std::int64_t out) {
  const auto stride = window.strides[i];
  if (!node.op.ends_with("Pool")) {
    return std::max<std::int64_t>((out - 1) * stride + window.reach(i) - in, 0);
  }
  return ((in + stride - 1) / stride - 1) * stride + window.kernel[i] - in;
}

}  // namespace

Window window_of(const graph::Node& node, const Dims& in, const Dims& out, const Dims& kernel,
                 const std::string& auto_pad) {
  const std::size_t rank = in.size();
  Window window{.kernel = node.ints_or("kernel_shape", kernel),
                .strides = node.ints_or("strides", Dims(rank, 1)),
                .dilations = node.ints_or("dilations", Dims(rank, 1)),
                .pads_begin = Dims(rank, 0),
                .pads_end = Dims(rank, 0)};
  const Dims pads = node.ints_or("pads", Dims(2 * rank, 0));
  for (std::size_t i = 0; i < rank; ++i) {
    if (auto_pad == "NOTSET") {
      window.pads_begin[i] = pads[i];
      window.pads_end[i] = pads[rank + i];
    } else if (auto_pad != "VALID") {
      const auto total = same_padding(node, window, i, in[i], out[i]);
      window.pads_begin[i] = (auto_pad == "SAME_LOWER" ? total + 1 : total) / 2;
      window.pads_end[i] = total - window.pads_begin[i];
    }
  }
  return window;
}

Window window_of(const graph::Node& node, const Dims& in, const Dims& out, const Dims& kernel) {
  return window_of(node, in, out, kernel, string_or(node, "auto_pad", "NOTSET"));
}

bool leaves_out_edges(const Window& window) {
  const auto below_0 = [](std::int64_t pad) { return pad < 0; };
  return std::ranges::any_of(window.pads_begin, below_0) ||
         std::ranges::any_of(window.pads_end, below_0);
}

Window whole_window(const Dims& size) {
  const Dims ones(size.size(), 1);
  const Dims zeros(size.size(), 0);
  return {
      .kernel = size, .strides = ones, .dilations = ones, .pads_begin = zeros, .pads_end = zeros};
}

}  // namespace penstock::lower
