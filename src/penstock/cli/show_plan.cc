// Stages with their notes, edges with bytes per frame, states and streams, as JSON or tables.
#include "penstock/cli/show_plan.h"

#include <optional>
#include <set>

#include <spdlog/spdlog.h>

#include "penstock/base/printable.h"
#include "penstock/base/words.h"
#include "penstock/cli/text.h"
#include "penstock/pipeline/capacity.h"
#include "penstock/pipeline/edge.h"
#include "penstock/pipeline/pipeline.h"

namespace penstock::cli {
namespace {

std::string devices_text(const std::vector<device::Device>& devices) {
  return join(devices, ",", [](const auto& device) { return device::to_string(device); });
}

std::string backends_text(const plan::Stage& stage) {
  std::set<std::string> names;
  for (const auto& partition : stage.partitions) names.insert(partition.backend);
  return join(names, "+");
}

Json infos_json(const std::vector<plan::TensorInfo>& infos) {
  Json list = Json::array();
  for (const auto& info : infos) {
    list.push_back(tensor_json(info.name, info.type));
    if (info.range) list.back()["values"] = {info.range->least, info.range->most};
  }
  return list;
}

Json devices_json(const std::vector<device::Device>& devices) {
  Json list = Json::array();
  for (const auto& device : devices) list.push_back(device::to_string(device));
  return list;
}

Json stage_plan_json(const plan::Stage& stage) {
  Json models = Json::array();
  for (const auto& partition : stage.partitions) {
    models.push_back(partition.served ? to_string(*partition.served) : partition.model);
    for (const auto& batched : partition.batched) models.push_back(batched.model);
  }
  return {{"name", stage.name},
          {"backend", backends_text(stage)},
          {"devices", devices_json(stage.devices)},
          {"replicas", stage.devices.size()},
          {"models", std::move(models)},
          {"inputs", stage.inputs},
          {"outputs", stage.outputs},
          {"parameters", stage.parameters},
          {"pinned", stage.pinned},
          {"flush_denormals", stage.flush_denormals},
          {"stateful", stage.stateful},
          {"each", stage.each},
          {"max_run_us", stage.max_run ? Json(stage.max_run->count()) : Json(nullptr)},
          {"lanes", stage.lanes},
          {"max_left_behind", stage.max_left_behind},
          {"host_cpus", stage.host_cpus},
          {"batch", {{"frames", stage.batch.frames}, {"wait_us", stage.batch.wait.count()}}},
          {"standby", devices_json(stage.standby)},
          {"nodes", stage.nodes}};
}

Json edge_plan_json(const plan::Plan& plan, const plan::Edge& edge) {
  const auto size = pipeline::slot_bytes(plan, edge);
  return {{"name", pipeline::edge_name(plan, edge)},
          {"tensors", edge.tensors},
          {"capacity", edge.capacity},
          {"policy", plan::to_string(edge.policy)},
          {"bytes_per_frame", size ? Json(*size) : Json(nullptr)}};
}

std::string infos_text(const char* title, const std::vector<plan::TensorInfo>& infos) {
  std::string text;
  for (const auto& info : infos) {
    text += printable(concat(title, "  ", info.name, "  ", info.type)) + "\n";
  }
  return text;
}

std::vector<std::string> notes_on(const plan::Stage& stage) {
  std::vector<std::string> notes;
  if (!stage.pinned) notes.emplace_back("may move among the plan's CPUs");
  if (stage.flush_denormals) notes.emplace_back("denormals flushed");
  if (stage.stateful) notes.emplace_back("stateful");
  if (!stage.each.empty()) notes.push_back("for each item of " + join(stage.each, " "));
  if (stage.max_run) notes.push_back(concat("max run ", stage.max_run->count(), " us"));
  if (!stage.parameters.empty()) notes.push_back("parameters " + join(stage.parameters, " "));
  if (stage.lanes > 0) notes.push_back(concat("up to ", stage.lanes, " calls in flight"));
  if (stage.max_left_behind > 0) {
    notes.push_back(concat("may leave ", counted(stage.max_left_behind, "call"), " behind"));
  }
  if (!stage.host_cpus.empty()) notes.push_back("started from cpu " + ranges(stage.host_cpus));
  if (stage.batch.frames > 1) {
    notes.push_back(concat("up to ", stage.batch.frames, " frames a call"));
    const auto wait = stage.batch.wait.count();
    if (wait > 0) notes.push_back(concat("waits ", wait, " us for more"));
  }
  if (!stage.standby.empty()) notes.push_back("stand-by " + devices_text(stage.standby));
  return notes;
}

std::string stages_text(const plan::Plan& plan) {
  Table table({"stage", ">nodes", "backend", "device of each replica", "notes"});
  for (const auto& stage : plan.stages) {
    table.add({stage.name, std::to_string(stage.nodes.size()), backends_text(stage),
               devices_text(stage.devices), join(notes_on(stage), ", ")});
  }
  return table.print();
}

std::string edges_text(const plan::Plan& plan) {
  Table table({"edge", ">bytes a frame", ">slots", "when full", "tensors"});
  for (const auto& edge : plan.edges) {
    const auto size = pipeline::slot_bytes(plan, edge);
    table.add({pipeline::edge_name(plan, edge), size ? std::to_string(*size) : "unbounded",
               edge.capacity == 0 ? "auto" : std::to_string(edge.capacity),
               std::string(plan::to_string(edge.policy)), join(edge.tensors, " ")});
  }
  return table.print();
}

std::string origin_text(const plan::Plan& plan) {
  std::string text = "made by penstock " + plan.origin.penstock;
  for (const auto& [engine, version] : plan.origin.engines)
    text += concat(", ", engine, " ", version);
  if (!plan.origin.model_file.empty()) text += ", from '" + plan.origin.model_file + "'";
  return plan.origin.penstock.empty() ? "" : text + "\n";
}

}  // namespace

Json plan_json(const plan::Plan& plan, const backend::Registry& backends) {
  Json stages = Json::array();
  for (const auto& stage : plan.stages) stages.push_back(stage_plan_json(stage));
  Json edges = Json::array();
  for (const auto& edge : plan.edges) edges.push_back(edge_plan_json(plan, edge));
  Json states = Json::array();
  for (const auto& state : plan.states) {
    states.push_back({{"from", state.from},
                      {"to", state.to},
                      {"initial", state.initial.empty() ? Json(nullptr) : Json(state.initial)}});
  }
  Json bound = Json::array();
  for (const auto& input : plan.bound_inputs) {
    Json json = tensor_json(input.name, input.type);
    json["value"] = input.value.empty() ? Json(nullptr) : Json(input.value);
    bound.push_back(std::move(json));
  }
  Json parameters = Json::array();
  for (const auto& parameter : plan.parameters) {
    parameters.push_back(tensor_json(parameter.name, parameter.type));
  }
  const auto memory = pipeline::memory_ceiling(plan, {}, backends);
  return {{"model", plan.model},
          {"model_hash", plan.model_hash},
          {"inputs", infos_json(plan.inputs)},
          {"outputs", infos_json(plan.outputs)},
          {"bound_inputs", std::move(bound)},
          {"parameters", std::move(parameters)},
          {"stages", std::move(stages)},
          {"edges", std::move(edges)},
          {"states", std::move(states)},
          {"streams", {{"most", plan.streams.most}, {"evict", plan.streams.evict}}},
          {"memory_bytes", memory ? Json(*memory) : Json(nullptr)},
          {"on_error", plan.on_error == plan::OnError::kStop ? "stop" : "deliver"},
          {"max_age_us", plan.max_age ? Json(plan.max_age->count()) : Json(nullptr)},
          {"origin",
           {{"penstock", plan.origin.penstock},
            {"cpu", plan.origin.cpu},
            {"engines", plan.origin.engines},
            {"model_file", plan.origin.model_file},
            {"model_sha256", plan.origin.model_sha256}}}};
}

std::string plan_text(const plan::Plan& plan, const backend::Registry& backends) {
  std::string text =
      printable(concat("model '", plan.model, "': ", counted(plan.stages.size(), "stage"))) + "\n";
  text += origin_text(plan);
  text += infos_text("input", plan.inputs);
  for (const auto& input : plan.bound_inputs) {
    text += printable(concat("bound  ", input.name, "  ", input.type, "  ",
                             input.value.empty() ? input.file : input.value)) +
            "\n";
  }
  for (const auto& parameter : plan.parameters) {
    text += printable(concat("parameter  ", parameter.name, "  ", parameter.type)) + "\n";
  }
  text += infos_text("output", plan.outputs);
  for (const auto& state : plan.states) {
    text += printable(concat("state  ", state.from, " -> ", state.to, " of the next frame")) + "\n";
  }
  if (plan.streams.most > 1) {
    text += concat(
        "streams  ", plan.streams.most, " at most; one more ",
        plan.streams.evict ? "takes the place of that used last longest ago" : "is refused", "\n");
  }
  text += "\n" + stages_text(plan) + "\n" + edges_text(plan);
  const auto memory = pipeline::memory_ceiling(plan, {}, backends);
  text += "\nmemory of the edges: " +
          (memory ? "at most " + bytes(*memory)
                  : std::string("without bound: the engine allocates what no shape bounds")) +
          "\n";
  text += concat(
      "a frame's error ",
      plan.on_error == plan::OnError::kStop ? "stops the pipeline" : "is delivered in its place",
      "\n");
  if (plan.max_age) text += concat("a frame's deadline is ", plan.max_age->count(), " us\n");
  return text;
}

void log_plan(const plan::Plan& plan, const backend::Registry& backends) {
  std::set<std::string> names;
  for (const auto& stage : plan.stages) {
    spdlog::info("{}: {} on {}", stage.name, counted(stage.nodes.size(), "node"),
                 devices_text(stage.devices));
    for (const auto& partition : stage.partitions) names.insert(partition.backend);
  }
  for (const auto& name : names) {
    const auto found = backends.find(name);
    if (!found) continue;
    const auto described = (*found)->describe();
    if (!described.unavailable.empty()) continue;
    spdlog::info("{} {}, '{}'", name, described.engine_version, described.engine_file);
  }
}

}  // namespace penstock::cli
