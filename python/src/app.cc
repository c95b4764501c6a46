#include "app.h"

#include <chrono>
#include <optional>
#include <utility>

#include "errors.h"
#include "penstock/app/app.h"
#include "penstock/app/connect.h"
#include "penstock/graph/import.h"
#include "penstock/session/load.h"
#include "request.h"

namespace penstock::python {
namespace {

using Named = std::vector<std::pair<std::string, std::string>>;

struct AppRequest {
  app::App app;
  std::filesystem::path yaml;             ///< Instead of `app`.
  std::optional<app::ServedNode> served;  ///< The same: of this one model.
  RunOptions run;
  std::filesystem::path output;
};

Result<app::Network> to_network(const Options& node) {
  const nb::dict options = node.get<nb::dict>("split");
  PENSTOCK_TRY(auto request, to_request(nb::object(options["model"]), Options(options)));
  PENSTOCK_TRY(request.split.by, to_split_by(request));
  return app::Network{request.model.file, std::move(request.import), std::move(request.split)};
}

Result<app::FunctionNode> to_function_node(const Options& node) {
  app::FunctionNode function;
  function.name = node.get<std::string>("function");
  function.library = node.get<std::string>("library");
  function.options = node.get<std::map<std::string, std::string>>("options");
  function.replicas = node.get<int>("replicas");
  PENSTOCK_TRY(function.devices, to_devices(node.get<std::string>("devices")));
  return function;
}

Result<app::ServedNode> to_served_node(const Options& node) {
  app::ServedNode served;
  PENSTOCK_TRY(served.model, plan::parse_served_model(node.get<std::string>("model")));
  PENSTOCK_TRY(served.devices, to_devices(node.get<std::string>("devices")));
  PENSTOCK_TRY(served.standby, to_devices(node.get<std::string>("standby")));
  served.idempotent = node.get<bool>("idempotent");
  served.lanes = node.get<int>("lanes");
  served.options = node.get<std::map<std::string, std::string>>("options");
  for (const auto& text : node.get<std::vector<std::string>>("shapes")) {
    PENSTOCK_TRY(auto shape, graph::parse_shape(text));
    served.shapes.insert(std::move(shape));
  }
  return served;
}

template <typename Kind>
Status to_kind(app::Node& node, Result<Kind> made) {
  if (!made) return std::move(made).error().within({Where::kNode, node.name});
  node.runs = *std::move(made);
  return {};
}

Result<app::Node> to_node(const Options& options) {
  app::Node node;
  node.name = options.get<std::string>("name");
  const auto kind = options.get<std::string>("kind");
  PENSTOCK_CHECK_OK(kind == "network"  ? to_kind(node, to_network(options))
                    : kind == "served" ? to_kind(node, to_served_node(options))
                                       : to_kind(node, to_function_node(options)));
  for (auto& [port, source] : options.get<Named>("inputs"))
    node.inputs.push_back({port, source, {}});
  node.each = options.get<std::vector<std::string>>("each");
  auto max_run = to_microseconds(options, "max_run_ms");
  if (!max_run) return std::move(max_run).error().within({Where::kNode, node.name});
  node.max_run = *max_run;
  node.max_left_behind = options.maybe<int>("max_left_behind");
  if (const auto most = node.max_left_behind.value_or(0); most < 0 || most > plan::kMostLanes) {
    return invalid_argument("max_left_behind: expected 0 to ", plan::kMostLanes, ", found ", most)
        .within({Where::kNode, node.name});
  }
  return node;
}

Result<app::App> to_app(const Options& description) {
  app::App app;
  app.name = description.get<std::string>("name");
  for (auto& [name, text] : description.get<Named>("inputs")) {
    app::Input input{name, {}, {}};
    if (!text.empty()) {
      auto type = app::parse_type(text);
      if (!type) return std::move(type).error().within({Where::kInput, name});
      input.type = *std::move(type);
    }
    app.inputs.push_back(std::move(input));
  }
  for (const nb::handle node : description.get<nb::list>("nodes")) {
    PENSTOCK_TRY(auto made, to_node(Options(nb::cast<nb::dict>(node))));
    app.nodes.push_back(std::move(made));
  }
  for (auto& [name, source] : description.get<Named>("outputs")) {
    app.outputs.push_back({name, source, {}});
  }
  for (const nb::handle state : description.get<nb::list>("states")) {
    const Options options(nb::cast<nb::dict>(state));
    app.states.push_back({options.get<std::string>("from"),
                          options.get<std::string>("to"),
                          options.get<std::string>("initial"),
                          {}});
  }
  return app;
}

Result<AppRequest> to_app_request(const Options& description, const Options& options) {
  AppRequest request;
  request.yaml = description.get<std::string>("yaml");
  const nb::list served = description.get<nb::list>("served");
  if (served.size() > 0) {
    PENSTOCK_TRY(request.served, to_served_node(Options(nb::cast<nb::dict>(served[0]))));
  } else if (request.yaml.empty()) {
    PENSTOCK_TRY(request.app, to_app(description));
  }
  PENSTOCK_TRY(request.run, to_run_options(options));
  PENSTOCK_TRY(request.run.callables, to_callables(description.get<nb::list>("functions")));
  request.output = options.get<std::string>("output");
  return request;
}

/// A plan without files, and so without a folder.
Status make_served(AppRequest request, Made& made) {
  plan::Package package;
  PENSTOCK_TRY(package.plan, app::plan_of_served(*request.served, backends()));
  return start(std::move(package), std::move(request.run), made);
}

Status make_app(AppRequest request, Made& made) {
  if (request.served) return make_served(std::move(request), made);
  if (!request.yaml.empty()) {
    PENSTOCK_TRY(request.app, app::read_yaml(request.yaml));
  }
  if (request.run.stream.streams) request.app.streams = *request.run.stream.streams;
  if (!request.run.pipeline.native_code) PENSTOCK_CHECK_OK(app::refuse_native_code(request.app));
  std::vector<function::Function> functions;
  for (const auto& callable : request.run.callables) functions.push_back(callable.function);
  plan::Package package;
  if (request.output.empty()) {
    PENSTOCK_TRY(package, app::pack(request.app, backends(), functions));
  } else {
    const auto written = app::write_package(request.app, request.output, backends(), functions);
    if (!written) return written.error();
    PENSTOCK_TRY(package, load_package(request.output));
  }
  made.warnings = app::lanes_left_out(request.app, package.plan);
  Status started = start(std::move(package), std::move(request.run), made);
  return started ? Status() : app::place_error(request.app, std::move(started).error());
}

nb::object start_app(nb::dict description, nb::dict options) {
  auto request = value_or_raise(to_app_request(Options(description), Options(options)));
  return make_aside([request = std::move(request)](Made& made, const Abandoned&) {
    return make_app(request, made);
  });
}

}  // namespace

void bind_app(nb::module_& module) {
  module.def("app", &start_app, nb::arg("description"), nb::arg("options"));
}

}  // namespace penstock::python
