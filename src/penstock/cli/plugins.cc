// Loads the backends once for a command, and warns of named places without plugins.
#include "penstock/cli/plugins.h"

#include <spdlog/spdlog.h>

#include "penstock/backend/plugin_places.h"

namespace penstock::cli {

backend::Registry load_backends() {
  for (const auto& place : backend::empty_places()) spdlog::warn("{}", place);
  return backend::Registry::load();
}

}  // namespace penstock::cli
