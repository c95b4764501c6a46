// Where plugins of backends are looked for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace penstock::backend {

/// The folders and files that the environment variable PENSTOCK_PLUGIN_PATH names, in its order.
std::vector<std::filesystem::path> places_of_environment();

/// The plugins of a folder (`libpenstock_backend_*.so`) in the order of their names; a file is
/// itself.
std::vector<std::filesystem::path> plugins_at(const std::filesystem::path& place);

/// One sentence for each place of the environment that is not there or holds no plugin: it is
/// misspelt, or what it is to hold was not built.
std::vector<std::string> empty_places();

}  // namespace penstock::backend
