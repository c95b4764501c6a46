// penstock backends: the toolchains found, and why others were not.
#include <memory>

#include "penstock/backend/registry.h"
#include "penstock/cli/command.h"
#include "penstock/cli/json.h"
#include "penstock/cli/text.h"

namespace penstock::cli {
namespace {

struct BackendsOptions {
  bool json = false;
};

Json to_json(const backend::Registry& registry) {
  Json backends = Json::array();
  for (const auto& backend : registry.all()) {
    const auto described = backend->describe();
    backends.push_back({{"name", described.name},
                        {"available", described.unavailable.empty()},
                        {"engine_version", described.engine_version},
                        {"engine_file", described.engine_file},
                        {"unavailable", described.unavailable},
                        {"whole_graph", described.whole_graph}});
  }
  return {{"backends", std::move(backends)}, {"problems", registry.problems()}};
}

std::string to_text(const backend::Registry& registry) {
  std::string text;
  for (const auto& backend : registry.all()) {
    const auto described = backend->describe();
    const bool available = described.unavailable.empty();
    text += concat(described.name, "  ", available ? described.engine_version : "not available",
                   "  ", available ? described.engine_file : described.unavailable, "\n");
  }
  if (registry.all().empty()) {
    text +=
        "no backends: expected libpenstock_backend_*.so beside penstock or in "
        "PENSTOCK_PLUGIN_PATH\n";
  }
  for (const auto& problem : registry.problems()) text += "not loaded: " + problem + "\n";
  return text;
}

Result<int> run(const BackendsOptions& options) {
  const auto registry = backend::Registry::load();
  if (options.json) {
    print_json(to_json(registry));
  } else {
    print(to_text(registry));
  }
  return kOk;
}

}  // namespace

void declare_backends(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<BackendsOptions>();
  auto* command = add_command(
      app, "backends",
      "Shows the toolchains that can run stages: the library taken and its version, or why there "
      "is "
      "none.",
      R"(Backends are plugins: libpenstock_backend_*.so in the folders (or files) that PENSTOCK_PLUGIN_PATH
lists, then beside penstock. Each takes an installed library of its engine; PENSTOCK_ONNXRUNTIME and
PENSTOCK_OPENVINO name one.

Example:
  PENSTOCK_ONNXRUNTIME=/opt/ort/lib/libonnxruntime.so penstock backends)");
  command->add_flag("--json", options->json, "Print JSON");
  set_action(command, chosen, options, run);
}

}  // namespace penstock::cli
