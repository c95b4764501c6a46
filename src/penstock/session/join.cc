// Imports each partition's model and merges values by their names in the plan.
#include "penstock/session/join.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "penstock/graph/import.h"
#include "penstock/session/session.h"
#include "penstock/tensor/npy.h"

namespace penstock {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

/// Stages of one network share the names of tensors, so names alone put them together. Those of an
/// application may give the same name to what is not: there a stage's inner ones are its own.
class Joiner {
 public:
  /// `own` stands before the names of inner values.
  void add(Graph stage, const plan::Partition& partition, const std::string& own) {
    joined_.info = stage.info;
    std::vector<ValueId> ids;
    for (auto& value : stage.values) {
      const bool is_inner = !value.is_input && !value.is_output;
      value.name = is_inner ? own + value.name : partition.tensor_of(value.name);
      ids.push_back(add(std::move(value)));
    }
    for (auto& node : stage.nodes) {
      for (auto* list : {&node.inputs, &node.outputs, &node.captures}) {
        for (auto& id : *list) {
          if (id != ValueId::kNone) id = ids[index(id)];
        }
      }
      add(std::move(node));
    }
  }

  /// What is no network: a node that reads and writes the same.
  void add_opaque(const plan::Partition& partition, const plan::Plan& plan) {
    graph::Node node;
    node.op = node.name = kOpaque;
    node.domain = kOpaque;
    const auto list = [&](const auto& names, std::vector<ValueId>& ids) {
      for (const auto& name : names) {
        const auto* info = plan.find_tensor(name);
        if (info != nullptr) ids.push_back(id_of(*info));
      }
    };
    list(partition.inputs, node.inputs);
    list(partition.outputs, node.outputs);
    add(std::move(node));
  }

  ValueId id_of(const plan::TensorInfo& info) {
    graph::Value value;
    value.name = info.name;
    value.type = info.type;
    return add(std::move(value));
  }
  graph::Value& value(const plan::TensorInfo& info) { return joined_.values[index(id_of(info))]; }

  Graph finish(const plan::Plan& plan) && {
    for (const auto& input : plan.inputs) {
      value(input).is_input = true;
      joined_.inputs.push_back(ids_.at(input.name));
    }
    for (const auto& output : plan.outputs) {
      value(output).is_output = true;
      joined_.outputs.push_back(ids_.at(output.name));
    }
    for (const auto& state : plan.states) {
      joined_.values[index(ids_.at(state.to))].is_input = true;
      joined_.inputs.push_back(ids_.at(state.to));
      joined_.values[index(ids_.at(state.from))].is_output = true;
      joined_.outputs.push_back(ids_.at(state.from));
    }
    joined_.info.name = plan.model;
    return std::move(joined_);
  }

 private:
  ValueId add(graph::Value value) {
    const auto [known, fresh] =
        ids_.emplace(value.name, static_cast<ValueId>(joined_.values.size()));
    if (fresh) {
      value.producer.reset();
      value.consumers.clear();
      value.is_input = value.is_output = false;
      joined_.values.push_back(std::move(value));
    } else if (auto& constant = joined_.values[index(known->second)].constant; !constant) {
      constant = std::move(value.constant);
    }
    return known->second;
  }

  void add(graph::Node node) {
    const auto id = static_cast<NodeId>(joined_.nodes.size());
    for (const auto* list : {&node.inputs, &node.captures}) {
      for (const auto read : *list) {
        if (read == ValueId::kNone) continue;
        auto& consumers = joined_.values[index(read)].consumers;
        if (consumers.empty() || consumers.back() != id) consumers.push_back(id);
      }
    }
    for (const auto made : node.outputs) {
      if (made != ValueId::kNone) joined_.values[index(made)].producer = id;
    }
    joined_.nodes.push_back(std::move(node));
    joined_.pipeline_stages.push_back(-1);
  }

  Graph joined_;
  std::unordered_map<std::string, ValueId> ids_;
};

}  // namespace

Result<Graph> join_stages(const plan::Package& package) {
  Joiner joiner;
  graph::ImportOptions import;
  import.as_is = true;
  const bool several = !why_no_single_model(package.plan).empty();
  for (const auto& stage : package.plan.stages) {
    for (const auto& partition : stage.partitions) {
      if (partition.backend == plan::kFunctionBackend || partition.served) {
        joiner.add_opaque(partition, package.plan);
        continue;
      }
      PENSTOCK_TRY(auto graph, graph::import_onnx(package.folder / partition.model, import));
      joiner.add(std::move(graph), partition, several ? stage.name + "/" : "");
    }
  }
  for (const auto& parameter : package.plan.parameters) {
    PENSTOCK_TRY(auto value, read_npy(package.folder / parameter.file, parameter.type.dtype));
    joiner.value({parameter.name, parameter.type}).constant = std::move(value);
  }
  return std::move(joiner).finish(package.plan);
}

}  // namespace penstock
