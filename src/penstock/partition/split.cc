// From stages to a plan and a package.
#include "penstock/partition/split.h"

#include <algorithm>
#include <fstream>
#include <list>
#include <map>
#include <set>
#include <system_error>

#include "penstock/base/files.h"
#include "penstock/base/option_name.h"
#include "penstock/base/permissions.h"
#include "penstock/graph/batched.h"
#include "penstock/graph/external_files.h"
#include "penstock/graph/randomness.h"
#include "penstock/graph/subgraph.h"
#include "penstock/graph/weight_store.h"
#include "penstock/graph/writer.h"
#include "penstock/partition/denormals.h"
#include "penstock/partition/outputs.h"
#include "penstock/partition/resolve.h"
#include "penstock/partition/stage_name.h"
#include "penstock/plan/package_files.h"
#include "penstock/tensor/literal.h"
#include "penstock/tensor/npy.h"

namespace penstock::partition {
namespace {

namespace fs = std::filesystem;
using graph::Graph;
using graph::NodeId;
using graph::Subgraph;
using graph::ValueId;

constexpr const char* kStages = "stages";  ///< The folder of their models.

/// What becomes one model.
struct Part {
  ChosenPart chosen;  ///< Its nodes stand in `subgraph`.
  Subgraph subgraph;
};

struct StageParts {
  Subgraph whole;
  std::vector<Part> parts;
};

/// Borrows the graph, or the changed copy in `writable`.
struct Parts {
  Writable writable;
  std::vector<StageParts> stages;
};

/// One stage keeps the model's own inputs and outputs, as long as a stage can make them all.
bool is_whole(const Graph& graph, const Stages& stages) {
  std::set<ValueId> seen;
  const auto can_be_made = [&](ValueId id) {
    const auto& value = graph.value(id);
    const bool made = value.producer || (value.constant && !value.is_parameter);
    return made && seen.insert(id).second;
  };
  return stages.size() <= 1 && !graph.outputs.empty() &&
         std::ranges::all_of(graph.outputs, can_be_made);
}

/// The parts of stage `number`, which may hold nodes that were added to make it writable.
std::vector<ChosenPart> parts_of(const std::vector<NodeId>& nodes, std::size_t number,
                                 const SplitOptions& options) {
  const auto* chosen = std::get_if<ChosenStages>(&options.by);
  if (chosen == nullptr || number >= chosen->stages.size() ||
      chosen->stages[number].parts.empty()) {
    return {{options.backend, options.backend_options, nodes}};
  }
  auto parts = chosen->stages[number].parts;
  std::set<NodeId> added(nodes.begin(), nodes.end());
  for (const auto& part : parts) {
    for (const auto node : part.nodes) added.erase(node);
  }
  parts.back().nodes.insert(parts.back().nodes.end(), added.begin(), added.end());
  return parts;
}

Result<StageParts> cut_stage(const Graph& source, const std::vector<NodeId>& nodes,
                             std::size_t number, const SplitOptions& options) {
  PENSTOCK_TRY(auto whole, Subgraph::create(source, nodes));
  if (whole.outputs().empty()) {
    return invalid_argument("nothing reads what its nodes make (the first is '",
                            source.node(whole.nodes().front()).name,
                            "'); cut so that it has an output");
  }
  StageParts stage{std::move(whole), {}};
  for (auto& part : parts_of(nodes, number, options)) {
    PENSTOCK_TRY(auto subgraph, Subgraph::create(source, part.nodes));
    stage.parts.push_back({std::move(part), std::move(subgraph)});
  }
  return stage;
}

Result<Parts> cut_parts(const Graph& graph, const Stages& stages, const SplitOptions& options) {
  if (graph.outputs.empty()) {
    return invalid_argument("graph '", graph.info.name, "': expected outputs, found none");
  }
  Parts parts;
  const auto first = parts_of(stages.empty() ? std::vector<NodeId>() : stages.front(), 0, options);
  if (is_whole(graph, stages) && first.size() == 1) {
    const auto whole = Subgraph::whole(graph);
    parts.stages.push_back({whole, {{first.front(), whole}}});
    return parts;
  }
  PENSTOCK_TRY(parts.writable, make_writable(graph, stages));
  const auto& source = parts.writable.changed ? *parts.writable.changed : graph;
  for (std::size_t i = 0; i < parts.writable.stages.size(); ++i) {
    auto stage = cut_stage(source, parts.writable.stages[i], i, options);
    if (!stage) return std::move(stage).error().within({Where::kStage, stage_name(i)});
    parts.stages.push_back(*std::move(stage));
  }
  return parts;
}

std::vector<plan::TensorInfo> infos_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<plan::TensorInfo> infos;
  infos.reserve(values.size());
  for (const auto id : values) {
    const auto& value = graph.value(id);
    infos.push_back({value.name, value.type, value.range, value.words});
  }
  return infos;
}

std::vector<device::Device> one_per_cpu() {
  std::vector<device::Device> devices;
  for (const int cpu : device::inherited_cpus()) devices.push_back({.host = {}, .cpus = {cpu}});
  return devices;
}

/// Device of each replica of each stage: pinned stages on theirs, the others dealt in turn.
Result<std::vector<std::vector<device::Device>>> deal_devices(const Graph& graph,
                                                              const Stages& stages,
                                                              const SplitOptions& options) {
  if (const auto* chosen = std::get_if<ChosenStages>(&options.by)) {
    std::vector<std::vector<device::Device>> devices;
    devices.reserve(chosen->stages.size());
    for (const auto& stage : chosen->stages) devices.push_back(stage.devices);
    return devices;
  }
  if (options.replicas < 1 || options.replicas > plan::kMostInstances) {
    return invalid_argument("replicas: expected 1 to ", plan::kMostInstances, ", found ",
                            options.replicas);
  }
  const auto* pins = std::get_if<Pins>(&options.by);
  if (pins != nullptr && options.replicas > 1) {
    return invalid_argument(
        "replicas: expected 1 with pins, which name one device for a stage, "
        "found ",
        options.replicas);
  }
  const auto devices = options.devices.empty() ? one_per_cpu() : options.devices;
  const auto replicas = static_cast<std::size_t>(options.replicas);
  std::vector<std::vector<device::Device>> dealt(std::max<std::size_t>(stages.size(), 1));
  for (std::size_t i = 0; i < dealt.size(); ++i) {
    for (std::size_t j = 0; j < replicas; ++j) {
      dealt[i].push_back(devices[(i * replicas + j) % devices.size()]);
    }
  }
  if (pins == nullptr) return dealt;
  for (const auto& [text, device] : pins->nodes) {
    PENSTOCK_TRY(const auto node, resolve_node(graph, text, "pin"));
    for (std::size_t i = 0; i < stages.size(); ++i) {
      if (std::ranges::find(stages[i], node) != stages[i].end()) dealt[i] = {device};
    }
  }
  return dealt;
}

std::vector<std::string> names_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> names;
  names.reserve(values.size());
  for (const auto id : values) names.push_back(graph.value(id).name);
  return names;
}

plan::Stage make_stage(const StageParts& parts, std::size_t number, const SplitOptions& options,
                       plan::Plan& plan) {
  const auto& graph = parts.whole.graph();
  plan::Stage stage;
  stage.name = stage_name(number);
  stage.pinned = options.pinned;
  stage.flush_denormals = options.flush_denormals || has_denormal_constants(parts.whole);
  for (const auto id : parts.whole.inputs()) {
    const auto& value = graph.value(id);
    (value.is_parameter ? stage.parameters : stage.inputs).push_back(value.name);
  }
  for (const auto& [chosen, subgraph] : parts.parts) {
    const auto place =
        parts.parts.size() == 1 ? concat(number) : concat(number, ".", stage.partitions.size());
    stage.partitions.push_back({chosen.backend, "stages/" + place + ".onnx",
                                names_of(graph, subgraph.inputs()),
                                names_of(graph, subgraph.outputs()), chosen.options});
    for (const auto id : subgraph.outputs()) {
      const auto& value = graph.value(id);
      if (!plan.find_tensor(value.name)) plan.tensors.push_back({value.name, value.type});
    }
  }
  for (const auto id : parts.whole.outputs()) {
    const auto& value = graph.value(id);
    // An output of the plan, or read by a later stage; else it never leaves the stage.
    const bool leaves = std::ranges::find(graph.outputs, id) != graph.outputs.end();
    if (leaves || !value.is_output) stage.outputs.push_back(value.name);
  }
  for (const auto id : parts.whole.nodes()) {
    const auto& node = graph.node(id);
    stage.nodes.push_back(node.name);
    if (graph::is_random(graph, node)) stage.draws.push_back(node.name);
  }
  return stage;
}

std::vector<plan::Parameter> parameters_of(const Graph& graph) {
  std::vector<plan::Parameter> parameters;
  for (const auto id : graph.parameters) {
    const auto& value = graph.value(id);
    parameters.push_back(
        {value.name, value.type, concat("parameters/", parameters.size(), ".npy")});
  }
  return parameters;
}

std::vector<plan::BoundInput> bound_inputs_of(const Graph& graph) {
  std::vector<plan::BoundInput> inputs;
  for (const auto& [name, value, position] : graph.bound_inputs) {
    plan::BoundInput input{name, value.type(), {}, {}, position};
    if (value.bytes() <= plan::kMostBoundBytes) input.value = literal_of(value).value_or("");
    if (input.value.empty()) input.file = concat("bound/", inputs.size(), ".npy");
    inputs.push_back(std::move(input));
  }
  return inputs;
}

/// Where each library goes in the package: its own name, numbered where two share it.
std::vector<std::string> custom_op_paths(const std::vector<fs::path>& libraries) {
  std::vector<std::string> paths;
  for (const auto& library : libraries) {
    const auto name = library.filename().string();
    auto path = "custom_ops/" + name;
    if (std::ranges::find(paths, path) != paths.end()) {
      path = concat("custom_ops/", paths.size(), "-", name);
    }
    paths.push_back(std::move(path));
  }
  return paths;
}

/// CPUs of this machine are not lost.
void stand_by(const std::vector<device::Device>& standby, plan::Stage& stage) {
  const auto is_local = [](const device::Device& device) { return device.is_local_cpu(); };
  if (std::ranges::all_of(stage.devices, is_local)) return;
  for (const auto& device : standby) {
    if (std::ranges::find(stage.devices, device) == stage.devices.end()) {
      stage.standby.push_back(device);
    }
  }
}

Result<plan::Plan> plan_of(const Graph& graph, const Parts& parts, const Stages& stages,
                           const SplitOptions& options) {
  plan::Plan plan;
  plan.model = graph.info.name;
  plan.model_hash = graph::canonical_hash(Subgraph::whole(graph));
  plan.inputs = infos_of(graph, graph.inputs);
  plan.outputs = infos_of(graph, graph.outputs);
  plan.bound_inputs = bound_inputs_of(graph);
  plan.parameters = parameters_of(graph);
  plan.custom_ops = custom_op_paths(options.custom_ops);
  const auto* chosen = std::get_if<ChosenStages>(&options.by);
  if (chosen != nullptr) plan.prediction = chosen->prediction;
  PENSTOCK_TRY(auto devices, deal_devices(graph, stages, options));
  for (std::size_t i = 0; i < parts.stages.size(); ++i) {
    plan.stages.push_back(make_stage(parts.stages[i], i, options, plan));
    plan.stages.back().devices = std::move(devices[i]);
    stand_by(options.standby, plan.stages.back());
    if (chosen == nullptr) continue;
    plan.stages.back().host_cpus = chosen->stages[i].host_cpus;
    plan.stages.back().predicted_seconds = chosen->stages[i].predicted_seconds;
    if (!chosen->stages[i].standby.empty()) {
      plan.stages.back().standby = chosen->stages[i].standby;
    }
  }
  PENSTOCK_CHECK_OK(add_batches(options.batches, plan));
  PENSTOCK_CHECK_OK(add_lanes(options.lanes, plan));
  plan::connect(plan);
  PENSTOCK_CHECK_OK(plan::validate(plan));
  return plan;
}

/// What may help where a part of the graph cannot take several frames.
std::string advice_on_batch(const Error& error, const Graph& graph) {
  constexpr const char* kLeaveOut = "leave the stage out of the batch (STAGE=1)";
  const Where* const input = error.find(Where::kInput);
  const auto is_it = [&](ValueId id) { return graph.value(id).name == input->name; };
  if (input == nullptr || !std::ranges::any_of(graph.inputs, is_it)) return concat("; ", kLeaveOut);
  return concat("; bind it if it is the same for all frames (", example_of_constant(input->name),
                "), or ", kLeaveOut);
}

/// The model of one frame and those of several, which share its weights.
Status write_partition(const Subgraph& part, const plan::Partition& partition,
                       const fs::path& folder, const graph::WeightStore* weights) {
  std::list<Graph> wide;
  std::vector<graph::ModelFile> models{{part, folder / partition.model}};
  for (const auto& [frames, model] : partition.batched) {
    auto made = graph::batched(part, frames);
    if (!made) {
      const auto advice = advice_on_batch(made.error(), part.graph());
      return std::move(made).error().adding(advice);
    }
    wide.push_back(*std::move(made));
    models.push_back({Subgraph::whole(wide.back()), folder / model});
  }
  const auto written = graph::write_onnx(models, {.weights = weights});
  return written ? Status() : Status(written.error());
}

/// One stage after the other: constants go from their storage to the file, so that no more memory
/// is needed than the graph has.
Status write_stages(const Parts& parts, const plan::Plan& plan, const fs::path& folder,
                    const graph::WeightStore* weights) {
  PENSTOCK_CHECK_OK(make_folder(folder / kStages));
  for (std::size_t i = 0; i < parts.stages.size(); ++i) {
    for (std::size_t j = 0; j < parts.stages[i].parts.size(); ++j) {
      Status written = write_partition(parts.stages[i].parts[j].subgraph,
                                       plan.stages[i].partitions[j], folder, weights);
      if (!written) return std::move(written).error().within({Where::kStage, plan.stages[i].name});
    }
  }
  return {};
}

Status write_parameters(const Graph& graph, const plan::Plan& plan, const fs::path& folder) {
  if (!plan.parameters.empty()) PENSTOCK_CHECK_OK(make_folder(folder / "parameters"));
  for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
    const auto& parameter = plan.parameters[i];
    const auto& value = graph.value(graph.parameters[i]);
    if (!value.constant)
      return internal_error("no default").within({Where::kParameter, parameter.name});
    auto written = write_npy(*value.constant, folder / parameter.file);
    if (!written) return std::move(written).error().within({Where::kParameter, parameter.name});
  }
  return {};
}

Status write_bound_inputs(const Graph& graph, const plan::Plan& plan, const fs::path& folder) {
  for (std::size_t i = 0; i < plan.bound_inputs.size(); ++i) {
    const auto& input = plan.bound_inputs[i];
    if (input.file.empty()) continue;
    PENSTOCK_CHECK_OK(make_folder(folder / "bound"));
    auto written = write_npy(graph.bound_inputs[i].value, folder / input.file);
    if (!written) return std::move(written).error().within({Where::kInput, input.name});
  }
  return {};
}

/// What was made of the model's numbers is for those who may read the model.
Status keep_readers(const Graph& graph, const fs::path& folder) {
  if (graph.import.file.empty()) return {};
  const auto given = graph::common_permissions(graph.import.file);
  PENSTOCK_TRY(const auto paths, plan::list_files(folder));
  for (const auto& path : paths) keep_from_others(folder / path, given);
  return {};
}

Status copy_custom_ops(const SplitOptions& options, const plan::Plan& plan,
                       const fs::path& folder) {
  if (!plan.custom_ops.empty()) PENSTOCK_CHECK_OK(make_folder(folder / "custom_ops"));
  for (std::size_t i = 0; i < plan.custom_ops.size(); ++i) {
    std::error_code error;
    fs::copy_file(options.custom_ops[i], folder / plan.custom_ops[i], error);
    if (!error) continue;
    return not_found("custom-operator library '", options.custom_ops[i].string(),
                     "': cannot be copied: ", error.message());
  }
  return {};
}

Status write_files(const SplitOptions& options, const fs::path& folder) {
  for (const auto& [path, contents] : options.files) {
    std::ofstream out(folder / path, std::ios::binary);
    out << contents;
    if (!out.flush()) {
      return make_error(Code::kResourceExhausted, "'", path, "': cannot be written");
    }
  }
  return {};
}

}  // namespace

Result<plan::Plan> make_plan(const Graph& graph, const Stages& stages,
                             const SplitOptions& options) {
  PENSTOCK_TRY(const auto parts, cut_parts(graph, stages, options));
  return plan_of(graph, parts, stages, options);
}

Result<std::map<std::string, Error>> stages_without_batch(const Graph& graph,
                                                          const SplitOptions& options) {
  PENSTOCK_TRY(const auto stages, assign_stages(graph, options));
  PENSTOCK_TRY(const auto parts, cut_parts(graph, stages, options));
  PENSTOCK_TRY(const auto plan, plan_of(graph, parts, stages, options));
  std::map<std::string, Error> without;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const auto& name = plan.stages[i].name;
    if (!asked_of(options.batches, name).measured) continue;
    for (const auto& part : parts.stages[i].parts) {
      auto made = graph::batched(part.subgraph, 2);
      if (!made) without.emplace(name, std::move(made).error());
    }
  }
  return without;
}

Result<plan::Plan> split(const Graph& graph, const SplitOptions& options, const fs::path& target,
                         plan::Origin origin) {
  PENSTOCK_TRY(const auto stages, assign_stages(graph, options));
  PENSTOCK_TRY(const auto parts, cut_parts(graph, stages, options));
  PENSTOCK_TRY(auto plan, plan_of(graph, parts, stages, options));
  plan.origin = std::move(origin);
  PENSTOCK_TRY(auto package, plan::PackageWriter::create(target));
  PENSTOCK_CHECK_OK(write_stages(parts, plan, package.folder(), options.weights));
  PENSTOCK_CHECK_OK(write_parameters(graph, plan, package.folder()));
  PENSTOCK_CHECK_OK(write_bound_inputs(graph, plan, package.folder()));
  PENSTOCK_CHECK_OK(keep_readers(graph, package.folder()));
  PENSTOCK_CHECK_OK(copy_custom_ops(options, plan, package.folder()));
  PENSTOCK_CHECK_OK(write_files(options, package.folder()));
  std::map<std::string, std::string> known;
  if (options.weights != nullptr) {
    known.emplace(concat(kStages, "/", graph::WeightStore::kFileName), options.weights->sha256());
  }
  return package.commit(std::move(plan), known);
}

}  // namespace penstock::partition
