// Reads the first block of "key : value" lines, by the keys of x86, arm64 and other processors.
#include "penstock/device/cpu_info.h"

#include <fstream>
#include <initializer_list>
#include <map>

#include "penstock/base/error.h"

namespace penstock::device {
namespace {

using Values = std::map<std::string, std::string>;

/// The first line "key : value" for each key, up to the first empty line.
Values read_values(const std::filesystem::path& path) {
  Values values;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto key_end = line.find_last_not_of(" \t", colon == 0 ? 0 : colon - 1);
    const auto value = line.find_first_not_of(' ', colon + 1);
    values.emplace(line.substr(0, key_end + 1),
                   value == std::string::npos ? "" : line.substr(value));
  }
  return values;
}

std::string first_of(const Values& values, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (const auto found = values.find(key); found != values.end()) return found->second;
  }
  return {};
}

std::string model_of(const Values& values) {
  std::string name = first_of(values, {"model name", "Model", "Hardware", "cpu model"});
  const std::string implementer = first_of(values, {"CPU implementer"});
  if (!name.empty() || implementer.empty()) return name;
  return concat("implementer ", implementer, " part ", first_of(values, {"CPU part"}));
}

}  // namespace

CpuInfo read_cpu_info(const std::filesystem::path& file) {
  const auto values = read_values(file);
  return {model_of(values), first_of(values, {"flags", "Features"})};
}

}  // namespace penstock::device
