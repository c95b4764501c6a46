// Reads PENSTOCK_PLUGIN_PATH and lists folders.
#include "penstock/backend/plugin_places.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/folder.h"
#include "penstock/base/missing_folder.h"
#include "penstock/base/near_names.h"

namespace penstock::backend {
namespace {

constexpr const char* kVariable = "PENSTOCK_PLUGIN_PATH";
constexpr std::string_view kPluginPrefix = "libpenstock_backend_";

/// Empty: there is something to try.
std::string why_empty(const std::filesystem::path& place) {
  if (is_absent(place)) {
    return concat(kVariable, ": '", place.string(), "': no such folder or file",
                  did_you_mean_file(place));
  }
  if (!plugins_at(place).empty()) return {};
  return concat(kVariable, ": '", place.string(), "': no plugin in this folder: expected ",
                kPluginPrefix, "*.so");
}

}  // namespace

std::vector<std::filesystem::path> places_of_environment() {
  std::vector<std::filesystem::path> places;
  const char* variable = std::getenv(kVariable);
  std::istringstream list(variable == nullptr ? "" : variable);
  for (std::string place; std::getline(list, place, ':');) {
    if (!place.empty()) places.emplace_back(place);
  }
  return places;
}

std::vector<std::filesystem::path> plugins_at(const std::filesystem::path& place) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(place, ignored)) return {place};
  std::vector<std::filesystem::path> files;
  for (const auto& name : names_in(place, ignored)) {
    if (name.starts_with(kPluginPrefix) && name.ends_with(".so")) files.push_back(place / name);
  }
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> empty_places() {
  std::vector<std::string> told;
  for (const auto& place : places_of_environment()) {
    if (auto why = why_empty(place); !why.empty()) told.push_back(std::move(why));
  }
  return told;
}

}  // namespace penstock::backend
