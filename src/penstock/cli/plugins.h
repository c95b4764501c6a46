// The backends of a command.
#pragma once

#include "penstock/backend/registry.h"

namespace penstock::cli {

/// backend::Registry::load(), with a warning of each place of PENSTOCK_PLUGIN_PATH that has none.
backend::Registry load_backends();

}  // namespace penstock::cli
