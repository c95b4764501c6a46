// What the plugin calls in the library that it loads.
#pragma once

#include <memory>

#include "penstock/backend/backend.h"

namespace penstock::remote {

using Compiled = Result<std::unique_ptr<backend::Executable>>;
/// As Backend::compile(), to `made`.
using Compile = void (*)(const backend::CompileRequest& request, Compiled& made);
inline constexpr const char* kCompile = "penstock_remote_compile";  ///< The function's name.

}  // namespace penstock::remote
