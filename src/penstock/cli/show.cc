// penstock show: the nodes of a model, or the plan of a package.
#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "penstock/app/app.h"
#include "penstock/backend/registry.h"
#include "penstock/cli/command.h"
#include "penstock/cli/import_options.h"
#include "penstock/cli/json.h"
#include "penstock/cli/plugins.h"
#include "penstock/cli/show_costs.h"
#include "penstock/cli/show_plan.h"
#include "penstock/cli/source.h"
#include "penstock/cli/text.h"
#include "penstock/session/identify.h"
#include "penstock/session/session.h"
#include "penstock/tensor/literal.h"

namespace penstock::cli {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

struct ShowOptions {
  std::filesystem::path file;
  ImportArguments import;
  std::vector<std::filesystem::path> custom_ops;
  bool no_native_code = false;
  bool costs = false, json = false;
};

Json values_json(const Graph& graph, const std::vector<ValueId>& ids) {
  Json values = Json::array();
  for (const auto id : ids)
    values.push_back(tensor_json(graph.value(id).name, graph.value(id).type));
  return values;
}

/// Names; "" where an optional one is left out.
Json names_json(const Graph& graph, const std::vector<ValueId>& ids) {
  Json names = Json::array();
  for (const auto id : ids) names.push_back(id == ValueId::kNone ? "" : graph.value(id).name);
  return names;
}

Json node_json(const Graph& graph, std::size_t index) {
  const auto id = static_cast<NodeId>(index);
  const auto& node = graph.node(id);
  Json shapes = Json::array();
  for (const auto output : node.outputs) {
    shapes.push_back(output == ValueId::kNone ? "" : to_string(graph.value(output).type));
  }
  const auto macs = graph::known_macs_of(graph, id);
  const int stage = index < graph.pipeline_stages.size() ? graph.pipeline_stages[index] : -1;
  Json json = {{"index", index},
               {"name", node.name},
               {"op", node.op},
               {"domain", node.domain},
               {"inputs", names_json(graph, node.inputs)},
               {"outputs", names_json(graph, node.outputs)},
               {"captures", names_json(graph, node.captures)},
               {"shapes", std::move(shapes)},
               {"macs", macs ? Json(*macs) : Json(nullptr)},
               {"weight_bytes", graph::weight_bytes_of(graph, id)},
               {"pipeline_stage", stage < 0 ? Json(nullptr) : Json(stage)}};
  if (const auto found = node.metadata.find("layer_ann"); found != node.metadata.end()) {
    json["layer_ann"] = found->second;
  }
  return json;
}

Json bound_json(const Graph& graph) {
  Json bound = Json::array();
  for (const auto& [name, value, position] : graph.bound_inputs) {
    Json json = tensor_json(name, value.type());
    const auto text = literal_of(value);
    json["value"] = text ? Json(*text) : Json(nullptr);
    bound.push_back(std::move(json));
  }
  return bound;
}

Json to_json(const Graph& graph) {
  Json nodes = Json::array();
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) nodes.push_back(node_json(graph, i));
  return {{"name", graph.info.name},
          {"ir_version", graph.info.ir_version},
          {"opsets", graph.info.opsets},
          {"inputs", values_json(graph, graph.inputs)},
          {"outputs", values_json(graph, graph.outputs)},
          {"bound_inputs", bound_json(graph)},
          {"parameters", values_json(graph, graph.parameters)},
          {"nodes", std::move(nodes)},
          {"removed", graph.removed}};
}

Status show_model(const ShowOptions& options) {
  PENSTOCK_CHECK_OK(check_there(options.file));
  const auto backends = load_backends();
  PENSTOCK_TRY(const auto graph,
               import_file(options.file, options.import, backends, options.custom_ops));
  warn_of_refusal(graph, backends, options.custom_ops);
  if (options.json) {
    Json json = to_json(graph);
    if (options.costs) {
      PENSTOCK_TRY(json["costs"], model_costs_json(graph, backends));
    }
    print_json(json);
    return {};
  }
  std::string text = graph::to_text(graph);
  if (options.costs) {
    PENSTOCK_TRY(const auto costs, model_costs_text(graph, backends));
    text += costs;
  }
  print(text);
  return {};
}

/// Costs are of one network's nodes, and an application may have several.
Status refuse_costs_of(const std::filesystem::path& file) {
  PENSTOCK_TRY(const auto application, app::read_yaml(file));
  std::string ask;
  for (const auto& node : application.nodes) {
    const auto* network = std::get_if<app::Network>(&node.runs);
    if (network == nullptr) continue;
    ask += concat(ask.empty() ? "; ask of its networks by " : ", ", "'penstock show ",
                  network->model.string(), " --costs'");
  }
  return invalid_argument("--costs: expected a model or a package that was built, found '",
                          file.string(), "', an application", ask,
                          "; or build it ('penstock build') and show the package");
}

/// The plan of a package, or what an application becomes.
Status show_plan(const ShowOptions& options) {
  if (options.costs && identify(options.file) == FileKind::kApplication) {
    return refuse_costs_of(options.file);
  }
  SourceArguments source;
  source.file = options.file;
  source.import = options.import;
  source.engine.custom_ops = options.custom_ops;
  source.no_native_code = options.no_native_code;
  const auto backends = load_backends();
  PENSTOCK_TRY(const auto package, load_source(source, backends));
  if (options.json) {
    Json json = plan_json(package.plan, backends);
    if (options.costs) {
      PENSTOCK_TRY(json["costs"], package_costs_json(options.file));
    }
    print_json(json);
    return {};
  }
  std::string text = plan_text(package.plan, backends);
  if (options.costs) {
    PENSTOCK_TRY(const auto costs, package_costs_text(options.file));
    text += costs;
  }
  print(text);
  return {};
}

Result<int> run(const ShowOptions& options) {
  if (identify(options.file) == FileKind::kModel) {
    PENSTOCK_CHECK_OK(show_model(options));
  } else {
    PENSTOCK_CHECK_OK(show_plan(options));
  }
  return kOk;
}

}  // namespace

void declare_show(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<ShowOptions>();
  auto* command = add_command(
      app, "show", "Lists the nodes of a model, or the plan of a package or an application.",
      R"(A model is shown as it is imported: constants folded, identities and dead nodes gone. The index is
the one that 'split --cut' takes; sizes are of the constants that a node reads; '?' stands for MACs
that open shapes, control flow or operators of other domains hide. A negative dimension in the file is
an open one. A package is shown as its stages, devices and edges, with the memory that the edges need;
so is an application, as 'penstock split' would pack it. --costs adds, for each node of a model, what it
computes and moves and the least time that one CPU of this machine needs for it; of a package that was
built, the time that was measured beside it.

Examples:
  penstock show model.onnx
  penstock show model.onnx --shape x=1x3x224x224 --json
  penstock show model.onnx --costs
  penstock show model.penstock
  penstock show app.yaml --no-native-code)");
  command
      ->add_option("file", options->file,
                   "A model (.onnx), a package (a folder or .zip) or an application (.yaml)")
      ->required();
  add_import_options(command, options->import);
  add_list(command, "--custom-ops", options->custom_ops,
           "A library of custom operators for ONNX Runtime, which tells their outputs' types");
  add_native_code_option(command, options->no_native_code);
  command->add_flag("--costs", options->costs,
                    "Add the time of each node and the least that the machine needs for it");
  command->add_flag("--json", options->json, "Print JSON");
  set_action(command, chosen, options, run);
}

}  // namespace penstock::cli
