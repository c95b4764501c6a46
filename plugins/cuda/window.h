// The text of loops over the window of a convolution or a pooling.
#pragma once

#include <string>

#include "builder.h"
#include "penstock/lower/window.h"

namespace penstock::cuda {

using lower::Window;
using lower::window_of;

/// The text of loops over the window's elements inside the input: `body` sees `at`, the element's
/// index in an image of the input, and `tap`, its number in the window. Before it, i2, i3, ... are
/// the indices in an image of the result.
std::string window_loops(const Window& window, const Dims& in, const std::string& body);

}  // namespace penstock::cuda
