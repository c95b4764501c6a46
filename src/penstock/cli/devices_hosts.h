// penstock devices --hosts: what other machines are, and the links to them.
#pragma once

#include <filesystem>

#include "penstock/base/result.h"

namespace penstock::cli {

/// \returns kFailed where a host, or a way, could not be reached: it is told with the rest.
Result<int> show_hosts(const std::filesystem::path& file, bool json);

}  // namespace penstock::cli
