#include "penstock/app/parts.h"

#include <algorithm>
#include <utility>

#include "penstock/backend/settings.h"
#include "penstock/session/identify.h"
#include "penstock/session/load.h"
#include "penstock/session/session.h"

namespace penstock::app {
namespace {

constexpr const char* kFunctionOption = "function";  ///< Of a partition: which one it runs.

/// The result; its error with the place of the node's field before it.
template <typename T>
Result<T> placed(const Node& node, const std::string& field, Result<T> result) {
  if (result) return result;
  return std::move(result).error().within(place_of(node, field));
}

/// Whether nothing is said that splitting a model would need.
bool settles_nothing(const Network& network) {
  const auto& split = network.split;
  const auto& import = network.import;
  const partition::SplitOptions usual;
  return split.stages.empty() && split.cuts.empty() && split.pins.empty() &&
         !split.use_annotations && split.replicas == usual.replicas && split.devices.empty() &&
         split.backend == usual.backend && split.backend_options.empty() && split.batches.empty() &&
         split.custom_ops.empty() && split.pinned == usual.pinned && import.shapes.empty() &&
         import.constants.empty() && import.parameters.empty() && !import.as_is;
}

/// Of a package of one network, as `penstock split`, `plan` and `build` write them.
Result<Part> package_part(const Node& node, const Network& network) {
  const Where place{Where::kPackage, network.model.string()};
  if (!settles_nothing(network)) {
    return invalid_argument(
               "how it is split, where and by what it runs was settled when it was "
               "made; leave that out here, or name its model")
        .within(place);
  }
  PENSTOCK_TRY(auto package, load_package(network.model));
  if (const auto why = why_no_single_model(package.plan); !why.empty()) {
    return invalid_argument(
               "expected one network, as 'penstock split', 'plan' and "
               "'build' write it from a model, found that ",
               why, "; name its networks, functions and states here")
        .within(place);
  }
  Part part;
  part.node = &node;
  part.plan = std::move(package.plan);
  part.folder = std::move(package.folder);
  part.files = std::move(package.files);
  part.devices_given = true;
  for (const auto& file : part.plan.custom_ops) part.custom_ops.push_back(part.folder / file);
  return part;
}

Status check_available(const std::vector<device::Device>& devices) {
  for (const auto& device : devices) PENSTOCK_CHECK_OK(device::check_available(device));
  return {};
}

/// The model, imported once all that is said of it is found to be there.
Result<graph::Graph> import_network(const Node& node, const Network& network,
                                    const backend::Registry& backends) {
  const auto& split = network.split;
  PENSTOCK_CHECK_OK(placed(node, "devices", check_available(split.devices)));
  for (const auto& [pinned, device] : split.pins) {
    PENSTOCK_CHECK_OK(placed(node, "pins", device::check_available(device)));
  }
  PENSTOCK_TRY(const auto backend, placed(node, "backend", backends.find(split.backend)));
  auto engine = make_engine(backends, split.custom_ops);
  if (!engine) return std::move(engine).error().within(place_of(node, "custom_ops"));
  auto import = network.import;
  import.engine = *std::move(engine);
  PENSTOCK_CHECK_OK(placed(
      node, "options", backend::check_settings(*backend, split.backend_options, split.custom_ops)));
  return placed(node, "network", import_model(network.model, std::move(import), backends));
}

Result<Part> network_part(const Node& node, const Network& network,
                          const backend::Registry& backends) {
  const auto kind = identify(network.model);
  if (kind == FileKind::kPackage) {
    return placed(node, "network", package_part(node, network));
  }
  if (kind == FileKind::kApplication) {
    return invalid_argument(
               "'", network.model.string(),
               "': expected a model or a package of one network, found an application; "
               "name its nodes here")
        .within(place_of(node, "network"));
  }
  PENSTOCK_TRY(const auto graph, import_network(node, network, backends));
  auto split = network.split;
  Part part;
  part.devices_given = !split.devices.empty() || !split.pins.empty() || !split.stages.empty();
  // pack_model() would take an answer of its own where nothing is said: one replica, no more.
  if (!part.devices_given) {
    const auto cpus = device::inherited_cpus();
    split.devices = {{.host = {}, .cpus = {cpus.front()}}};
  }
  PENSTOCK_TRY(auto package, placed(node, network.split.cuts.empty() ? "network" : "cuts",
                                    pack_model(graph, std::move(split), backends)));
  part.node = &node;
  part.plan = std::move(package.plan);
  part.folder = std::move(package.folder);
  part.files = std::move(package.files);
  part.custom_ops = network.split.custom_ops;
  return part;
}

Result<function::Function> declaration_of(const FunctionNode& source,
                                          const std::vector<function::Function>& functions) {
  auto found = function::find_function(functions, source.library, source.name);
  if (found || !source.library.empty() || found.error().code != Code::kNotFound) return found;
  return std::move(found).error().adding("; a library is named by its path, './lib.so'");
}

Result<Part> function_part(const Node& node, const FunctionNode& source,
                           const std::vector<function::Function>& functions) {
  PENSTOCK_TRY(const auto declared, placed(node, "function", declaration_of(source, functions)));
  if (source.replicas < 1 || source.replicas > plan::kMostInstances) {
    return invalid_argument("expected 1 to ", plan::kMostInstances, " replicas, found ",
                            source.replicas)
        .within(place_of(node, "replicas"));
  }
  if (declared.stateful && source.replicas > 1) {
    return invalid_argument(
               "function '", declared.name,
               "' is stateful and sees the frames in order: expected one replica, found ",
               source.replicas, "; leave 'replicas' out")
        .within(place_of(node, "replicas"));
  }
  if (source.options.contains(kFunctionOption)) {
    return invalid_argument("setting '", kFunctionOption,
                            "' is how a plan names the function itself; call yours otherwise")
        .within(place_of(node, "options"));
  }
  PENSTOCK_CHECK_OK(placed(node, "devices", check_available(source.devices)));
  Part part;
  part.node = &node;
  part.library = source.library;
  part.devices_given = !source.devices.empty();
  for (const auto& port : declared.inputs) part.plan.inputs.push_back({port.name, port.type});
  for (const auto& port : declared.outputs) part.plan.outputs.push_back({port.name, port.type});
  plan::Stage stage;
  stage.stateful = declared.stateful;
  const device::Device first{.host = {}, .cpus = {device::inherited_cpus().front()}};
  for (int r = 0; r < source.replicas; ++r) {
    const auto at = static_cast<std::size_t>(r);
    stage.devices.push_back(source.devices.empty() ? first
                                                   : source.devices[at % source.devices.size()]);
  }
  plan::Partition partition;
  partition.backend = plan::kFunctionBackend;
  partition.options = source.options;
  partition.options[kFunctionOption] = declared.name;
  stage.partitions.push_back(std::move(partition));
  part.plan.stages.push_back(std::move(stage));
  return part;
}

Status refuse_native_code(const Node& node) {
  if (const auto* function = std::get_if<FunctionNode>(&node.runs)) {
    if (function->library.empty()) return {};
    return plan::native_code_refused("function library '" + function->library.string() + "'");
  }
  const auto& network = std::get<Network>(node.runs);
  if (!network.split.custom_ops.empty()) {
    return plan::native_code_refused("custom-operator library '" +
                                     network.split.custom_ops.front().string() + "'");
  }
  if (identify(network.model) != FileKind::kPackage) return {};
  PENSTOCK_TRY(const auto package, load_package(network.model));
  return plan::refuse_native_code(package.plan);
}

const plan::TensorInfo* find(const std::vector<plan::TensorInfo>& list, std::string_view name) {
  const auto found = std::ranges::find(list, name, &plan::TensorInfo::name);
  return found == list.end() ? nullptr : &*found;
}

}  // namespace

const plan::TensorInfo* Part::find_input(std::string_view port) const {
  return find(plan.inputs, port);
}
const plan::TensorInfo* Part::find_output(std::string_view port) const {
  return find(plan.outputs, port);
}

Error at(const std::vector<Where>& place, Error error) {
  return std::move(error).within(place);
}

std::vector<Where> place_of(const Node& node, const std::string& field) {
  const auto known = node.places.find(field);
  auto place = known == node.places.end() ? node.place : known->second;
  place.emplace_back(Where::kNode, node.name);
  return place;
}

Error place_error(const App& app, Error error) {
  const Where* const stage = error.find(Where::kStage);
  if (stage == nullptr) return error;
  const auto named = std::ranges::find_if(app.nodes, [&](const Node& node) {
    return stage->name == node.name || stage->name.starts_with(node.name + "/");
  });
  return named == app.nodes.end() ? error : at(named->place, std::move(error));
}

Status refuse_native_code(const App& app) {
  for (const auto& node : app.nodes) {
    if (Status allowed = refuse_native_code(node); !allowed) {
      return std::move(allowed).error().within(place_of(node));
    }
  }
  return {};
}

Result<Part> make_part(const Node& node, const backend::Registry& backends,
                       const std::vector<function::Function>& functions) {
  const auto* network = std::get_if<Network>(&node.runs);
  return network != nullptr ? network_part(node, *network, backends)
                            : function_part(node, std::get<FunctionNode>(node.runs), functions);
}

}  // namespace penstock::app
