// What this backend may be given.
#pragma once

#include <string>

namespace penstock::onednn {

/// As Backend::rules().
std::string rules();

}  // namespace penstock::onednn
