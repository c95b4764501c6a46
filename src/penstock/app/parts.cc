// Turns a network, a function or a server's model into a plan; errors name the node's field.
#include "penstock/app/parts.h"

#include <algorithm>
#include <future>
#include <string_view>
#include <utility>

#include "penstock/backend/settings.h"
#include "penstock/base/option_name.h"
#include "penstock/base/thread.h"
#include "penstock/device/topology.h"
#include "penstock/plan/paths.h"
#include "penstock/ready/ready.h"
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

/// Of an import: options are called as the application's fields are.
Error in_words_of_fields(Error error) {
  for (auto& place : error.places) {
    if (place.kind != Where::kText) continue;
    if (place.name == name_of(OptionName::kConstants)) place.name = "constants";
    if (place.name == name_of(OptionName::kShapes)) place.name = "shapes";
  }
  return error;
}

/// Whether nothing is said that a model would need.
bool settles_nothing(const Network& network) {
  const auto& import = network.import;
  return network.is_undecided() && !network.build_budget && network.split.custom_ops.empty() &&
         import.shapes.empty() && import.constants.empty() && import.parameters.empty() &&
         !import.as_is;
}

/// What a package has settled, of that which the node says of it.
std::string settled_by_package(const Network& network) {
  const auto& import = network.import;
  std::vector<std::string> fields;
  if (!import.shapes.empty()) fields.emplace_back("'shapes'");
  if (!import.constants.empty()) fields.emplace_back("'constants'");
  if (!import.parameters.empty()) fields.emplace_back("'parameters'");
  if (import.as_is) fields.emplace_back("'as_is'");
  if (fields.empty()) return "how it is split, where and by what it runs";
  return concat("what ", join(fields, ", "), fields.size() == 1 ? " says" : " say");
}

/// The states' ends as inputs and outputs: an application connects them itself.
void open_states(plan::Plan& plan) {
  for (const auto& state : std::exchange(plan.states, {})) {
    for (auto [name, list] : {std::pair(&state.to, &plan.inputs), {&state.from, &plan.outputs}}) {
      const auto info = *plan.find_tensor(*name);
      std::erase_if(plan.tensors, [&](const auto& other) { return other.name == info.name; });
      if (std::ranges::find(*list, info.name, &plan::TensorInfo::name) == list->end())
        list->push_back(info);
    }
  }
  plan::connect(plan);
}

/// Of a package of one network, as `penstock split`, `plan` and `build` write them.
Result<Part> package_part(const Node& node, const Network& network) {
  const Where place{Where::kPackage, network.model.string()};
  if (!settles_nothing(network)) {
    return invalid_argument(settled_by_package(network),
                            " was settled when it was made; leave that out here, or name its model")
        .within(place);
  }
  PENSTOCK_TRY(auto package, penstock::load_package(network.model));
  if (const auto why = why_no_single_model(package.plan); !why.empty()) {
    return invalid_argument(
               "expected one network, as 'penstock split', 'plan' and "
               "'build' write it from a model, found that ",
               why, "; name its networks and functions here")
        .within(place);
  }
  NetworkPart made{std::move(package.folder), std::move(package.files), {}};
  for (const auto& file : package.plan.custom_ops) made.custom_ops.push_back(made.folder / file);
  std::vector<State> states;
  for (const auto& state : package.plan.states) {
    const auto initial = state.initial.empty() ? "" : made.folder / state.initial;
    states.push_back({node.name + "." + state.from, node.name + "." + state.to, initial,
                      place_of(node, "network")});
  }
  open_states(package.plan);
  return Part{&node, std::move(package.plan), std::move(made), true, std::move(states)};
}

Status check_available(const std::vector<device::Device>& devices) {
  PENSTOCK_TRY(const auto cpus, device::cpus_to_plan_for());
  for (const auto& device : devices) PENSTOCK_CHECK_OK(device::check_available(device, cpus));
  return {};
}

/// The model, imported once all that is said of it is found to be there.
Result<graph::Graph> import_network(const Node& node, const Network& network,
                                    const backend::Registry& backends) {
  const auto& split = network.split;
  PENSTOCK_CHECK_OK(placed(node, "devices", check_available(split.devices)));
  PENSTOCK_CHECK_OK(placed(node, "standby", check_available(split.standby)));
  if (const auto* pins = std::get_if<partition::Pins>(&split.by)) {
    for (const auto& [pinned, device] : pins->nodes) {
      PENSTOCK_CHECK_OK(placed(node, "pins", check_available({device})));
    }
  }
  PENSTOCK_TRY(const auto backend, placed(node, "backend", backends.find(split.backend)));
  auto engine = make_engine(backends, split.custom_ops);
  if (!engine) return std::move(engine).error().within(place_of(node, "custom_ops"));
  auto import = network.import;
  import.engine = *std::move(engine);
  PENSTOCK_CHECK_OK(placed(
      node, "options", backend::check_settings(*backend, split.backend_options, split.custom_ops)));
  auto graph = import_model(network.model, std::move(import), backends);
  if (!graph) return in_words_of_fields(std::move(graph).error()).within(place_of(node, "network"));
  return graph;
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
  const bool devices_given = !split.devices.empty() ||
                             std::holds_alternative<partition::Pins>(split.by) ||
                             std::holds_alternative<partition::ChosenStages>(split.by);
  // pack_model() would take an answer of its own where nothing is said: one replica, no more.
  if (!devices_given) {
    const auto cpus = device::inherited_cpus();
    split.devices = {{.host = {}, .cpus = {cpus.front()}}};
  }
  const auto* cuts = std::get_if<partition::Cuts>(&split.by);
  const std::string field = cuts == nullptr || cuts->nodes.empty() ? "network" : "cuts";
  PENSTOCK_TRY(auto package, placed(node, field, pack_model(graph, std::move(split), backends)));
  NetworkPart made{std::move(package.folder), std::move(package.files), network.split.custom_ops};
  return Part{&node, std::move(package.plan), std::move(made), devices_given};
}

bool is_ready(const FunctionNode& source) {
  return source.library.empty() && source.name.starts_with(function::kReadyPrefix);
}

Result<function::Function> declaration_of(const FunctionNode& source,
                                          const std::vector<function::Function>& functions) {
  if (is_ready(source)) {
    return ready::make(std::string_view(source.name).substr(function::kReadyPrefix.size()),
                       source.options);
  }
  auto found = function::find_function(functions, source.library, source.name);
  if (found || !source.library.empty() || found.error().code != Code::kNotFound) return found;
  return std::move(found).error().adding(
      "; a library is named by its path, './lib.so', a Python module by 'functions: module.py'");
}

Result<Part> function_part(const Node& node, const FunctionNode& source,
                           const std::vector<function::Function>& functions) {
  const bool ready = is_ready(source);
  PENSTOCK_TRY(const auto declared,
               placed(node, ready ? "ready" : "function", declaration_of(source, functions)));
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
  part.of = FunctionPart{source.library};
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
  partition.options[kFunctionOption] = ready ? source.name : declared.name;
  stage.partitions.push_back(std::move(partition));
  part.plan.stages.push_back(std::move(stage));
  return part;
}

/// What the server leaves open, the application may say.
Status fix_shapes(const ServedNode& source, plan::Plan& plan) {
  for (const auto& [name, dims] : source.shapes) {
    bool found = false;
    for (auto* list : {&plan.inputs, &plan.outputs}) {
      for (auto& info : *list) {
        if (info.name != name) continue;
        found = true;
        const Type said = Type::tensor(info.type.dtype, dims);
        if (!plan::agree(said, info.type)) {
          return invalid_argument("'", name, "': the server says ", info.type, ", found ", said);
        }
        info.type = said;
      }
    }
    if (!found) return not_found("the server's model has no input or output '", name, "'");
  }
  return {};
}

using Compiled = Result<std::unique_ptr<backend::Executable>>;

/// Asks the first device, and where it is away all others at once: each takes its time to be found
/// away. The first in their order that is there, or else the first device's error.
Compiled ask_servers(backend::Backend& remote, backend::CompileRequest request,
                     const plan::Stage& stage) {
  auto places = stage.devices;
  places.insert(places.end(), stage.standby.begin(), stage.standby.end());
  auto model = remote.compile(request);
  if (model || model.error().code != Code::kUnavailable) return model;
  std::vector<std::future<Compiled>> others;
  for (std::size_t i = 1; i < places.size(); ++i) {
    request.device = places[i];
    auto asked = start_async([&remote, request] { return remote.compile(request); });
    if (!asked) break;  // Those that are asked may be there.
    others.push_back(*std::move(asked));
  }
  for (auto& asked : others) {
    if (auto other = asked.get(); other && !model) model = std::move(other);
  }
  return model;
}

Result<Part> served_part(const Node& node, const ServedNode& source,
                         const backend::Registry& backends) {
  Part part;
  part.node = &node;
  part.of = ServedPart{};
  part.devices_given = true;
  plan::Stage stage;
  stage.devices = source.devices;
  if (stage.devices.empty()) {
    stage.devices.push_back({.host = source.model.address, .kind = device::Device::Kind::kServer});
  }
  stage.standby = source.standby;
  stage.lanes = source.lanes;
  plan::Partition partition;
  partition.backend = plan::kRemoteBackend;
  partition.served = source.model;
  partition.idempotent = source.idempotent;
  partition.options = source.options;
  PENSTOCK_TRY(const auto remote, placed(node, "model", backends.find(partition.backend)));
  backend::CompileRequest request;
  request.name = concat("node '", node.name, "'");
  request.device = stage.devices.front();
  request.served = to_string(source.model);
  request.options = source.options;
  PENSTOCK_TRY(const auto model, placed(node, "model", ask_servers(*remote, request, stage)));
  for (const auto& port : model->inputs()) part.plan.inputs.push_back({port.name, port.type});
  for (const auto& port : model->outputs()) part.plan.outputs.push_back({port.name, port.type});
  if (Status fixed = fix_shapes(source, part.plan); !fixed) {
    return std::move(fixed).error().within(place_of(node, "shapes"));
  }
  stage.partitions.push_back(std::move(partition));
  part.plan.stages.push_back(std::move(stage));
  return part;
}

Status refuse_native_code(const Node& node) {
  if (std::holds_alternative<ServedNode>(node.runs)) return {};
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
  PENSTOCK_TRY(const auto package, penstock::load_package(network.model));
  return plan::refuse_native_code(package.plan);
}

const plan::TensorInfo* find(const std::vector<plan::TensorInfo>& list, std::string_view name) {
  const auto found = std::ranges::find(list, name, &plan::TensorInfo::name);
  return found == list.end() ? nullptr : &*found;
}

}  // namespace

bool Network::is_undecided() const {
  const partition::SplitOptions usual;
  const auto* cuts = std::get_if<partition::Cuts>(&split.by);
  return cuts != nullptr && cuts->nodes.empty() && split.replicas == usual.replicas &&
         split.devices.empty() && split.standby.empty() && split.backend == usual.backend &&
         split.backend_options.empty() && split.batches.empty() && split.lanes.empty() &&
         split.pinned == usual.pinned;
}

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

bool belongs_to(const std::string& stage, const Node& node) {
  return stage == node.name || stage.starts_with(node.name + "/");
}

Error place_error(const App& app, Error error) {
  const Where* const stage = error.find(Where::kStage);
  if (stage == nullptr) return error;
  const auto named = std::ranges::find_if(
      app.nodes, [&](const Node& node) { return belongs_to(stage->name, node); });
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

Status check_options(const Node& node) {
  const auto* network = std::get_if<Network>(&node.runs);
  const auto* served = std::get_if<ServedNode>(&node.runs);
  if (network == nullptr && served == nullptr) return {};
  const std::string_view backend =
      network != nullptr ? network->split.backend : plan::kRemoteBackend;
  const auto& options = network != nullptr ? network->split.backend_options : served->options;
  for (const auto& [key, value] : options) {
    if (!plan::names_a_place(key, value)) continue;
    return invalid_argument("option '", key,
                            "' names a place on the disk, which an application may not; leave it "
                            "out there, and give it where the application is run (",
                            example_of_backend_option(backend, key), ")")
        .within(place_of(node, "options"));
  }
  return {};
}

Result<Part> make_part(const Node& node, const backend::Registry& backends,
                       const std::vector<function::Function>& functions) {
  if (const auto* served = std::get_if<ServedNode>(&node.runs)) {
    return served_part(node, *served, backends);
  }
  const auto* network = std::get_if<Network>(&node.runs);
  return network != nullptr ? network_part(node, *network, backends)
                            : function_part(node, std::get<FunctionNode>(node.runs), functions);
}

}  // namespace penstock::app
