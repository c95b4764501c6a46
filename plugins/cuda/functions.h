// Functions: what generated kernels call, as CUDA C++ text that stands in front of each.
#pragma once

#include <string_view>

namespace penstock::cuda {

std::string_view functions();

}  // namespace penstock::cuda
