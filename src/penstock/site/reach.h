// Reaching the workers of hosts: gRPC is loaded for it, which takes as long as all else together.
#pragma once

#include "penstock/base/result.h"
#include "penstock/hosts/worker.h"

namespace penstock::site {

/// \error kNotFound  the library that speaks with workers cannot be loaded.
Result<hosts::Reach> load_reach();

/// The library's entry.
using MakeReach = void (*)(hosts::Reach& reach);
inline constexpr const char* kMakeReach = "penstock_make_reach";

}  // namespace penstock::site
