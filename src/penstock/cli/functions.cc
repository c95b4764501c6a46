// penstock functions: the ready-made functions, and what each takes.
#include <memory>

#include "penstock/cli/command.h"
#include "penstock/cli/json.h"
#include "penstock/cli/text.h"
#include "penstock/ready/sheet.h"

namespace penstock::cli {
namespace {

struct FunctionsOptions {
  std::string name;
  bool json = false;
};

Json ports_json(const std::vector<backend::Port>& ports) {
  Json all = Json::array();
  for (const auto& port : ports) all.push_back(tensor_json(port.name, port.type));
  return all;
}

Json to_json(const ready::Sheet& sheet) {
  Json options = Json::array();
  for (const auto& setting : sheet.declaration->settings) {
    options.push_back({{"name", setting.name},
                       {"usual", setting.usual.empty() ? Json() : Json(setting.usual)},
                       {"takes", ready::expected(setting)},
                       {"says", setting.says}});
  }
  return {{"name", sheet.declaration->name},
          {"says", sheet.declaration->says},
          {"options", std::move(options)},
          {"given", sheet.given},
          {"inputs", ports_json(sheet.inputs)},
          {"outputs", ports_json(sheet.outputs)},
          {"yaml", sheet.yaml}};
}

std::string lines_of(std::string_view kind, const std::vector<backend::Port>& ports) {
  std::string text;
  for (const auto& port : ports) text += concat(kind, "  ", port.name, "  ", port.type, "\n");
  return text;
}

std::string to_text(const ready::Sheet& sheet) {
  std::string text = concat(sheet.declaration->name, ": ", sheet.declaration->says, "\n\n");
  text += lines_of("input ", sheet.inputs) + lines_of("output", sheet.outputs);
  Table table({"option", "usual", "what"});
  for (const auto& setting : sheet.declaration->settings) {
    table.add({std::string(setting.name),
               setting.usual.empty() ? "has to be given" : std::string(setting.usual),
               concat(setting.says, " It is ", ready::expected(setting), ".")});
  }
  return concat(text, "\n", table.print(), "\nIn an application:\n\n", sheet.yaml);
}

/// Of the function `name`; of all if it is empty.
Result<std::vector<ready::Sheet>> sheets_of(const std::string& name) {
  std::vector<ready::Sheet> sheets;
  if (!name.empty()) {
    PENSTOCK_TRY(sheets.emplace_back(), ready::sheet(name));
    return sheets;
  }
  for (const auto& declaration : ready::declarations()) {
    PENSTOCK_TRY(sheets.emplace_back(), ready::sheet(declaration.name));
  }
  return sheets;
}

void print_list(const std::vector<ready::Sheet>& sheets) {
  Table table({"function", "makes"});
  for (const auto& sheet : sheets) {
    table.add(
        {std::string(sheet.declaration->name), std::string(ready::summary(*sheet.declaration))});
  }
  print(table.print());
}

Result<int> show_functions(const FunctionsOptions& options) {
  PENSTOCK_TRY(const auto sheets, sheets_of(options.name));
  if (options.json) {
    Json all = Json::array();
    for (const auto& sheet : sheets) all.push_back(to_json(sheet));
    print_json({{"functions", std::move(all)}});
  } else if (options.name.empty()) {
    print_list(sheets);
  } else {
    print(to_text(sheets.front()));
  }
  return kOk;
}

/// For completion: "NAME:{decode,resize}".
std::string names_to_choose() {
  return concat("NAME:{",
                join(ready::declarations(), ",",
                     [](const auto& declaration) { return std::string(declaration.name); }),
                "}");
}

}  // namespace

void declare_functions(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<FunctionsOptions>();
  auto* command = add_command(
      app, "functions",
      "Lists the ready-made functions for what stands around networks, or shows what one of them "
      "takes and gives.",
      R"(A function is a node of an application (ready: NAME). Inputs and outputs are shown for the options that
have to be given, as in the example, and for all others as they are when nobody says.

Examples:
  penstock functions
  penstock functions letterbox)");
  command->add_option("NAME", options->name, "The function to show; without it all are listed")
      ->type_name(names_to_choose());
  command->add_flag("--json", options->json, "Print JSON");
  set_action(command, chosen, options, show_functions);
}

}  // namespace penstock::cli
