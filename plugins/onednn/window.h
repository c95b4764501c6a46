// Window: what convolutions and poolings slide over their spatial dimensions.
#pragma once

#include "builder.h"

namespace penstock::onednn {

/// One entry for each spatial dimension. Dilations count from 0, as oneDNN has them.
struct Window {
  Dims kernel, strides, dilations, pads_begin, pads_end;

  /// How far the kernel reaches along spatial dimension i.
  [[nodiscard]] std::int64_t reach(std::size_t i) const {
    return (kernel[i] - 1) * (dilations[i] + 1) + 1;
  }
};

/// By the node's attributes, auto_pad included. `kernel`: where the attribute is left out.
/// `in`, `out`: the spatial dimensions.
inline Window window_of(const Node& node, const Dims& in, const Dims& out, const Dims& kernel,
                        const std::string& auto_pad) {
  const std::size_t rank = in.size();
  Window window{.kernel = node.ints_or("kernel_shape", kernel),
                .strides = node.ints_or("strides", Dims(rank, 1)),
                .dilations = node.ints_or("dilations", Dims(rank, 1)),
                .pads_begin = Dims(rank, 0),
                .pads_end = Dims(rank, 0)};
  for (auto& dilation : window.dilations) --dilation;
  const Dims pads = node.ints_or("pads", Dims(2 * rank, 0));
  for (std::size_t i = 0; i < rank; ++i) {
    if (auto_pad == "NOTSET") {
      window.pads_begin[i] = pads[i];
      window.pads_end[i] = pads[rank + i];
    } else if (auto_pad != "VALID") {
      const auto total =
          std::max<std::int64_t>((out[i] - 1) * window.strides[i] + window.reach(i) - in[i], 0);
      window.pads_begin[i] = auto_pad == "SAME_LOWER" ? total - total / 2 : total / 2;
      window.pads_end[i] = total - window.pads_begin[i];
    }
  }
  return window;
}

}  // namespace penstock::onednn
