// Reads a window off a node, and writes loops over it.
#include "window.h"

#include <algorithm>

#include "operators.h"

namespace penstock::cuda {

Window window_of(const Node& node, const Dims& in, const Dims& out, const Dims& kernel) {
  const std::size_t rank = in.size();
  Window window{.kernel = node.ints_or("kernel_shape", kernel),
                .strides = node.ints_or("strides", Dims(rank, 1)),
                .dilations = node.ints_or("dilations", Dims(rank, 1)),
                .pads_begin = Dims(rank, 0),
                .pads_end = Dims(rank, 0)};
  const auto auto_pad = string_or(node, "auto_pad", "NOTSET");
  const Dims pads = node.ints_or("pads", Dims(2 * rank, 0));
  for (std::size_t i = 0; i < rank; ++i) {
    if (auto_pad == "NOTSET") {
      window.pads_begin[i] = pads[i];
      window.pads_end[i] = pads[rank + i];
    } else if (auto_pad != "VALID") {
      const auto reach = (window.kernel[i] - 1) * window.dilations[i] + 1;
      const auto total =
          std::max<std::int64_t>((out[i] - 1) * window.strides[i] + reach - in[i], 0);
      window.pads_begin[i] = auto_pad == "SAME_LOWER" ? total - total / 2 : total / 2;
      window.pads_end[i] = total - window.pads_begin[i];
    }
  }
  return window;
}

Dims spatial_of(const Dims& dims) {
  return {dims.begin() + 2, dims.end()};
}

std::string window_loops(const Window& window, const Dims& in, const std::string& body) {
  std::string text;
  std::string at = "0";
  std::string tap = "0";
  for (std::size_t d = 0; d < in.size(); ++d) {
    text +=
        concat("  #pragma unroll\n  for (int k", d, " = 0; k", d, " < ", window.kernel[d], "; ++k",
               d, ") {\n    const int y", d, " = (int)i", d + 2, " * ", window.strides[d], " - ",
               window.pads_begin[d], " + k", d, " * ", window.dilations[d], ";\n    if (y", d,
               " < 0 || y", d, " >= ", in[d], ") continue;\n");
    at = concat("(", at, ") * ", in[d], " + y", d);
    tap = concat("(", tap, ") * ", window.kernel[d], " + k", d);
  }
  text += concat("    const unsigned at = (unsigned)(", at, "), tap = (unsigned)(", tap,
                 ");\n    (void)tap;\n    ", body, "\n");
  for (std::size_t d = 0; d < in.size(); ++d) text += "  }";
  return text + "\n";
}

}  // namespace penstock::cuda
