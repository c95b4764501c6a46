// Window: what convolutions and poolings slide, as the library wants it.
#pragma once

#include "penstock/lower/window.h"

namespace penstock::onednn {

using lower::Window;
using lower::window_of;

/// Dilations as oneDNN counts them: neighbours are 0 apart.
inline lower::Dims dilations_from_0(const Window& window) {
  lower::Dims dilations = window.dilations;
  for (auto& dilation : dilations) --dilation;
  return dilations;
}

}  // namespace penstock::onednn
