// What this backend may be given.
#pragma once

#include <string>

namespace penstock::cuda {

/// As Backend::rules().
std::string rules();

}  // namespace penstock::cuda
