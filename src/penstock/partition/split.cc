// From stages to a plan and a package.
#include "penstock/partition/split.h"

#include <algorithm>
#include <set>
#include <system_error>

#include "penstock/base/files.h"
#include "penstock/graph/subgraph.h"
#include "penstock/graph/writer.h"
#include "penstock/partition/denormals.h"
#include "penstock/partition/outputs.h"
#include "penstock/partition/resolve.h"
#include "penstock/tensor/npy.h"

namespace penstock::partition {
namespace {

namespace fs = std::filesystem;
using graph::Graph;
using graph::NodeId;
using graph::Subgraph;
using graph::ValueId;

/// What becomes the model of each stage; borrows the graph, or the changed copy in `writable`.
struct Parts {
  Writable writable;
  std::vector<Subgraph> subgraphs;
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

Result<Parts> cut_parts(const Graph& graph, const Stages& stages) {
  if (graph.outputs.empty()) {
    return invalid_argument("graph '", graph.info.name, "': expected outputs, found none");
  }
  Parts parts;
  if (is_whole(graph, stages)) {
    parts.subgraphs.push_back(Subgraph::whole(graph));
    return parts;
  }
  PENSTOCK_TRY(parts.writable, make_writable(graph, stages));
  const auto& source = parts.writable.changed ? *parts.writable.changed : graph;
  for (std::size_t i = 0; i < parts.writable.stages.size(); ++i) {
    auto part = Subgraph::create(source, parts.writable.stages[i]);
    if (!part) return std::move(part).error().within(concat("stage", i));
    if (part->outputs().empty()) {
      return invalid_argument("stage", i, ": nothing reads what its nodes make (the first is '",
                              source.node(part->nodes().front()).name,
                              "'); cut so that it has an output");
    }
    parts.subgraphs.push_back(*std::move(part));
  }
  return parts;
}

std::vector<plan::TensorInfo> infos_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<plan::TensorInfo> infos;
  infos.reserve(values.size());
  for (const auto id : values) infos.push_back({graph.value(id).name, graph.value(id).type});
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
  if (!options.stages.empty()) {
    std::vector<std::vector<device::Device>> devices;
    for (const auto& stage : options.stages) devices.push_back(stage.devices);
    return devices;
  }
  if (options.replicas < 1) {
    return invalid_argument("replicas: expected at least 1, found ", options.replicas);
  }
  if (!options.pins.empty() && options.replicas > 1) {
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
  for (const auto& [text, device] : options.pins) {
    PENSTOCK_TRY(const auto node, resolve_node(graph, text, "pin"));
    for (std::size_t i = 0; i < stages.size(); ++i) {
      if (std::ranges::find(stages[i], node) != stages[i].end()) dealt[i] = {device};
    }
  }
  return dealt;
}

plan::Stage make_stage(const Subgraph& part, std::size_t number, const SplitOptions& options,
                       plan::Plan& plan) {
  const auto& graph = part.graph();
  plan::Stage stage;
  stage.name = concat("stage", number);
  stage.pinned = options.pinned;
  stage.flush_denormals = has_denormal_constants(part);
  plan::Partition partition;
  partition.backend = options.backend;
  partition.model = concat("stages/", number, ".onnx");
  partition.options = options.backend_options;
  for (const auto id : part.inputs()) {
    const auto& value = graph.value(id);
    partition.inputs.push_back(value.name);
    (value.is_parameter ? stage.parameters : stage.inputs).push_back(value.name);
  }
  for (const auto id : part.outputs()) {
    const auto& value = graph.value(id);
    partition.outputs.push_back(value.name);
    const bool listed = plan.find_tensor(value.name) != nullptr;
    if (!listed) plan.tensors.push_back({value.name, value.type});
    // An output of the plan, or read by a later stage; else it never leaves the stage.
    if (listed || !value.is_output) stage.outputs.push_back(value.name);
  }
  for (const auto id : part.nodes()) stage.nodes.push_back(graph.node(id).name);
  stage.partitions.push_back(std::move(partition));
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

Result<plan::Plan> plan_of(const Graph& graph, const Parts& parts, const Stages& stages,
                           const SplitOptions& options) {
  plan::Plan plan;
  plan.model = graph.info.name;
  plan.model_hash = graph::canonical_hash(Subgraph::whole(graph));
  plan.inputs = infos_of(graph, graph.inputs);
  plan.outputs = infos_of(graph, graph.outputs);
  plan.parameters = parameters_of(graph);
  plan.custom_ops = custom_op_paths(options.custom_ops);
  plan.prediction = options.prediction;
  PENSTOCK_TRY(auto devices, deal_devices(graph, stages, options));
  for (std::size_t i = 0; i < parts.subgraphs.size(); ++i) {
    plan.stages.push_back(make_stage(parts.subgraphs[i], i, options, plan));
    plan.stages.back().devices = std::move(devices[i]);
  }
  plan::connect(plan);
  PENSTOCK_CHECK_OK(plan::validate(plan));
  return plan;
}

/// One stage after the other: constants go from their storage to the file, so that no more memory
/// is needed than the graph has.
Status write_stages(const Parts& parts, const fs::path& folder) {
  PENSTOCK_CHECK_OK(make_folder(folder / "stages"));
  for (std::size_t i = 0; i < parts.subgraphs.size(); ++i) {
    const auto file = folder / "stages" / concat(i, ".onnx");
    const auto written = graph::write_onnx(parts.subgraphs[i], file, {});
    if (!written) return Error(written.error()).within(concat("stage", i));
  }
  return {};
}

Status write_parameters(const Graph& graph, const plan::Plan& plan, const fs::path& folder) {
  if (!plan.parameters.empty()) PENSTOCK_CHECK_OK(make_folder(folder / "parameters"));
  for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
    const auto& parameter = plan.parameters[i];
    const auto& value = graph.value(graph.parameters[i]);
    if (!value.constant) return internal_error("parameter '", parameter.name, "': no default");
    auto written = write_npy(*value.constant, folder / parameter.file);
    if (!written) return std::move(written).error().within("parameter '" + parameter.name + "'");
  }
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

}  // namespace

Result<plan::Plan> make_plan(const Graph& graph, const Stages& stages,
                             const SplitOptions& options) {
  PENSTOCK_TRY(const auto parts, cut_parts(graph, stages));
  return plan_of(graph, parts, stages, options);
}

Result<plan::Plan> split(const Graph& graph, const SplitOptions& options, const fs::path& target,
                         plan::Origin origin) {
  PENSTOCK_TRY(const auto stages, assign_stages(graph, options));
  PENSTOCK_TRY(const auto parts, cut_parts(graph, stages));
  PENSTOCK_TRY(auto plan, plan_of(graph, parts, stages, options));
  plan.origin = std::move(origin);
  PENSTOCK_TRY(auto package, plan::PackageWriter::create(target));
  PENSTOCK_CHECK_OK(write_stages(parts, package.folder()));
  PENSTOCK_CHECK_OK(write_parameters(graph, plan, package.folder()));
  PENSTOCK_CHECK_OK(copy_custom_ops(options, plan, package.folder()));
  return package.commit(std::move(plan));
}

}  // namespace penstock::partition
