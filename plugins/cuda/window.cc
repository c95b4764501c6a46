// Writes loops over a window.
#include "window.h"

namespace penstock::cuda {

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
