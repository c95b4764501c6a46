// Declares the options, parses shapes, constants and engine settings, and logs the import.
#include "penstock/cli/import_options.h"

#include <filesystem>
#include <system_error>

#include <spdlog/spdlog.h>

#include "penstock/app/app.h"
#include "penstock/base/near_names.h"
#include "penstock/base/words.h"
#include "penstock/cli/command.h"
#include "penstock/cli/numbers.h"
#include "penstock/session/identify.h"
#include "penstock/session/refused_node.h"
#include "penstock/session/session.h"

namespace penstock::cli {

void add_import_options(CLI::App* command, ImportArguments& arguments) {
  add_list(command, "--shape", arguments.shapes,
           "Fix or bound an input's dimensions: x=1x3x224x224, ids=1x1..512 (1 to 512), x=?x80 "
           "(open)")
      ->check(taken_by(graph::parse_shape));
  add_list(command, "--constant", arguments.constants,
           "Bind an input that never changes, and fold what hangs on it: sr=16000, ids=[1,2], "
           "mask=mask.npy")
      ->type_name("NAME=VALUE")
      ->check(taken_by(graph::parse_constant));
  add_list(command, "--parameter", arguments.parameters,
           "The name of a constant that stays replaceable while the pipeline runs");
  command->add_flag("--as-is", arguments.as_is,
                    "The file's own form: nothing folded, merged or removed");
}

Result<graph::ImportOptions> to_import_options(const ImportArguments& arguments) {
  graph::ImportOptions options;
  options.parameters = arguments.parameters;
  options.as_is = arguments.as_is;
  for (const auto& text : arguments.shapes) {
    PENSTOCK_TRY(auto shape, graph::parse_shape(text));
    if (!options.shapes.insert(shape).second) {
      return invalid_argument("--shape: input '", shape.first, "' is given twice");
    }
  }
  for (const auto& text : arguments.constants) {
    const auto taken = [&](const auto& name) { return options.constants.contains(name); };
    PENSTOCK_TRY(auto constant, part_constant(text, taken));
    options.constants.insert(std::move(constant));
  }
  return options;
}

Result<std::pair<std::string, std::string>> part_constant(
    const std::string& text, const std::function<bool(const std::string& name)>& taken) {
  PENSTOCK_TRY(auto constant, graph::parse_constant(text));
  for (auto end = constant.first.size(); taken(constant.first);) {
    end = text.find('=', end + 1);
    if (end == std::string::npos || end + 1 == text.size()) {
      return invalid_argument("--constant: input '", constant.first, "' is given twice");
    }
    constant = {text.substr(0, end), text.substr(end + 1)};
  }
  return constant;
}

namespace {

/// What is no model, and who takes it.
Status check_model(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) {
    return not_found("'", file.string(), "': no such file; expected a model (.onnx)",
                     did_you_mean_file(file));
  }
  const auto kind = identify(file);
  if (kind == FileKind::kApplication) {
    return invalid_argument("'", file.string(),
                            "': expected a model, found an application; 'penstock show', 'run', "
                            "'bench', 'build' and 'split' take it");
  }
  if (kind == FileKind::kPackage) {
    return invalid_argument("'", file.string(), "': expected a model (.onnx), found a ",
                            std::filesystem::is_directory(file, ignored) ? "folder" : "zip",
                            "; packages are for 'penstock show', 'run', 'bench' and 'verify'");
  }
  return {};
}

}  // namespace

Result<graph::Graph> import_file(const std::filesystem::path& file,
                                 const ImportArguments& arguments,
                                 const backend::Registry& backends,
                                 const std::vector<std::filesystem::path>& custom_ops) {
  PENSTOCK_CHECK_OK(check_model(file));
  PENSTOCK_TRY(auto options, to_import_options(arguments));
  PENSTOCK_TRY(auto graph, import_model(file, std::move(options), backends, custom_ops));
  const auto& notes = graph.import;
  spdlog::info("imported '{}': {} in the file, {} after cleaning, {} folded", file.string(),
               counted(notes.file_nodes, "node"), graph.nodes.size(), notes.folded_nodes);
  if (notes.not_folded) {
    spdlog::warn(
        "no engine is here to evaluate constants (see 'penstock backends'): names and indices of "
        "nodes may differ from an import with one");
  }
  return graph;
}

void warn_of_refusal(const graph::Graph& graph, const backend::Registry& backends,
                     const std::vector<std::filesystem::path>& custom_ops) {
  const auto refusal = foretell_refusal(graph, backends, custom_ops);
  if (!refusal.empty()) spdlog::warn("{}", refusal);
}

Result<BackendOption> parse_backend_option(const std::string& text) {
  const auto colon = text.find(':');
  const auto equals = text.find('=', colon == std::string::npos ? 0 : colon);
  if (colon == std::string::npos || equals == std::string::npos || colon == 0 ||
      equals == colon + 1) {
    return invalid_argument(
        "--backend-option: expected BACKEND:KEY=VALUE, such as "
        "onnxruntime:graph_optimization_level=2, found '",
        text, "'");
  }
  return BackendOption{text.substr(0, colon), text.substr(colon + 1, equals - colon - 1),
                       text.substr(equals + 1)};
}

void add_backend_options(CLI::App* command, BackendArguments& arguments) {
  add_list(command, "--backend-option", arguments.options,
           "A setting of the engine's own: onnxruntime:KEY=VALUE")
      ->check(taken_by(parse_backend_option));
  add_list(command, "--custom-ops", arguments.custom_ops,
           "A library of custom operators for ONNX Runtime");
}

void add_native_code_option(CLI::App* command, bool& refused) {
  auto* flag =
      command->add_flag("--no-native-code", refused,
                        "Refuse libraries of functions or custom operators, and Python modules");
  if (auto* libraries = command->get_option_no_throw("--custom-ops")) flag->excludes(libraries);
}

Result<std::map<std::string, std::map<std::string, std::string>>> to_backend_options(
    const BackendArguments& arguments) {
  std::map<std::string, std::map<std::string, std::string>> options;
  for (const auto& text : arguments.options) {
    PENSTOCK_TRY(auto option, parse_backend_option(text));
    options[option.backend][option.key] = std::move(option.value);
  }
  return options;
}

Result<std::map<std::string, std::string>> to_options_of_the_way(
    const BackendArguments& arguments) {
  PENSTOCK_TRY(auto settings, to_backend_options(arguments));
  return std::move(settings[std::string(plan::kRemoteBackend)]);
}

Result<std::map<std::string, std::string>> to_options_of(const std::string& backend,
                                                         const BackendArguments& arguments,
                                                         bool elsewhere) {
  PENSTOCK_TRY(const auto settings, to_backend_options(arguments));
  std::map<std::string, std::string> options;
  for (const auto& [name, values] : settings) {
    if (elsewhere && name == plan::kRemoteBackend) continue;
    if (name != backend) {
      return invalid_argument("--backend-option: expected options of backend '", backend,
                              "', found one of '", name, "'");
    }
    options = values;
  }
  return options;
}

Result<std::pair<std::string, device::Device>> parse_pin(const std::string& text) {
  PENSTOCK_TRY(auto pair, split_pair(text, true, "--pin", "NODE=DEVICE, such as conv1=cpu:0"));
  auto device = device::parse_device(pair.second);
  if (!device) return std::move(device).error().within("--pin " + text);
  return std::pair(std::move(pair.first), *std::move(device));
}

Result<std::pair<std::string, std::string>> split_pair(const std::string& text, bool at_last,
                                                       const std::string& option,
                                                       const std::string& form) {
  const auto equals = at_last ? text.rfind('=') : text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return invalid_argument(option, ": expected ", form, ", found '", text, "'");
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

}  // namespace penstock::cli
