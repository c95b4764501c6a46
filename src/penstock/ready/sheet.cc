// Makes a function with the examples of its settings, and reads its ports.
#include "penstock/ready/sheet.h"

#include <algorithm>
#include <utility>

namespace penstock::ready {
namespace {

/// As YAML has a setting: "480,640" is [480, 640].
std::string yaml_value(const std::string& text) {
  std::string value;
  for (const char c : text) value += c == ',' ? std::string(", ") : std::string(1, c);
  return text.find(',') == text.npos ? value : "[" + value + "]";
}

std::string yaml_of(const Sheet& sheet) {
  const auto name = sheet.declaration->name;
  std::string text = concat("nodes:\n  ", name, ":\n    ready: ", name, "\n");
  if (!sheet.given.empty()) {
    const auto option = [](const auto& pair) {
      return pair.first + ": " + yaml_value(pair.second);
    };
    text += concat("    options: {", join(sheet.given, ", ", option), "}\n");
  }
  const auto same = [](const auto& port) { return port.name + ": " + port.name; };
  return text + concat("    inputs: {", join(sheet.inputs, ", ", same), "}\n");
}

}  // namespace

Result<Sheet> sheet(std::string_view name) {
  Sheet sheet;
  PENSTOCK_TRY(sheet.declaration, declared(name));
  for (const auto& setting : sheet.declaration->settings) {
    if (setting.usual.empty()) sheet.given.emplace(setting.name, setting.shown);
  }
  PENSTOCK_TRY(auto made, make(name, sheet.given));
  sheet.inputs = std::move(made.inputs);
  sheet.outputs = std::move(made.outputs);
  sheet.yaml = yaml_of(sheet);
  return sheet;
}

std::string_view summary(const Declaration& declaration) {
  auto says = declaration.says;
  says = says.substr(0, std::min(says.find(": "), says.find(". ")));
  return says.ends_with('.') ? says.substr(0, says.size() - 1) : says;
}

}  // namespace penstock::ready
