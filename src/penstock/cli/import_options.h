// The options by which a model is imported, shared by the commands that take one.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/device/device.h"
#include "penstock/graph/import.h"

namespace penstock::cli {

struct ImportArguments {
  std::vector<std::string> shapes;
  std::vector<std::string> constants;
  std::vector<std::string> parameters;
  bool as_is = false;
};

/// --shape, --constant, --parameter, --as-is
void add_import_options(CLI::App* command, ImportArguments& arguments);

Result<graph::ImportOptions> to_import_options(const ImportArguments& arguments);

/// "NAME=VALUE" of --constant taken apart. A name may hold '=': it ends at the first one where none
/// ends that is `taken` by a constant before.
/// \error kInvalidArgument  "--constant: input 'x' is given twice", or graph::parse_constant()'s
Result<std::pair<std::string, std::string>> part_constant(
    const std::string& text, const std::function<bool(const std::string& name)>& taken);

/// Imports a model; the log tells what became of its nodes, with a warning if none could be folded.
Result<graph::Graph> import_file(const std::filesystem::path& file,
                                 const ImportArguments& arguments,
                                 const backend::Registry& backends,
                                 const std::vector<std::filesystem::path>& custom_ops = {});

/// Warns of what an engine will refuse in the network: foretell_refusal().
void warn_of_refusal(const graph::Graph& graph, const backend::Registry& backends,
                     const std::vector<std::filesystem::path>& custom_ops);

struct BackendArguments {
  std::vector<std::string> options;  ///< "onnxruntime:KEY=VALUE"
  std::vector<std::filesystem::path> custom_ops;
};

/// --backend-option, --custom-ops
void add_backend_options(CLI::App* command, BackendArguments& arguments);

/// --no-native-code; it excludes --custom-ops where the command has that: after
/// add_backend_options().
void add_native_code_option(CLI::App* command, bool& refused);

struct BackendOption {
  std::string backend, key, value;
};

/// \error kInvalidArgument  "--backend-option: expected BACKEND:KEY=VALUE, ..."
Result<BackendOption> parse_backend_option(const std::string& text);

/// By backend name. \error kInvalidArgument  shows the text and the form expected.
Result<std::map<std::string, std::map<std::string, std::string>>> to_backend_options(
    const BackendArguments& arguments);

/// Options by name, all of one backend. `elsewhere`: some stages are on other machines, and options
/// of backend "remote" are left out: they are a run's, and no package's.
/// \error kInvalidArgument  one is of another.
Result<std::map<std::string, std::string>> to_options_of(const std::string& backend,
                                                         const BackendArguments& arguments,
                                                         bool elsewhere = false);

/// Those of backend "remote", the way to other machines.
Result<std::map<std::string, std::string>> to_options_of_the_way(const BackendArguments& arguments);

/// "NODE=DEVICE" of --pin, the device there or not.
/// \error kInvalidArgument  "--pin: expected NODE=DEVICE, ...", "--pin c1=gpu: device 'gpu': ..."
Result<std::pair<std::string, device::Device>> parse_pin(const std::string& text);

/// "NAME=REST" taken apart at the first or, for names that hold '=', the last '='.
/// \error kInvalidArgument  "--pin: expected NODE=DEVICE, found 'x'"
Result<std::pair<std::string, std::string>> split_pair(const std::string& text, bool at_last,
                                                       const std::string& option,
                                                       const std::string& form);

}  // namespace penstock::cli
