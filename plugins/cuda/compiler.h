// Compiler: CUDA C++ text to code for one GPU, by NVRTC. Needs no GPU.
#pragma once

#include <string>

#include "libraries.h"

namespace penstock::cuda {

/// Machine code of `source` for `architecture` ("sm_90").
/// \error kInternal  the text is wrong, which is our bug: with NVRTC's log.
Result<std::string> compile(const Nvrtc& nvrtc, const std::string& source,
                            const std::string& architecture);

}  // namespace penstock::cuda
