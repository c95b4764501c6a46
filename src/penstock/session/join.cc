// Imports each partition's model and merges values by name; states become inputs and outputs.
#include "penstock/session/join.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "penstock/graph/import.h"
#include "penstock/tensor/npy.h"

namespace penstock {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

/// Stages of one network share the names of tensors, so names alone put them together.
class Joiner {
 public:
  void add(Graph stage) {
    joined_.info = stage.info;
    std::vector<ValueId> ids;
    for (auto& value : stage.values) ids.push_back(add(std::move(value)));
    for (auto& node : stage.nodes) {
      for (auto* list : {&node.inputs, &node.outputs, &node.captures}) {
        for (auto& id : *list) {
          if (id != ValueId::kNone) id = ids[index(id)];
        }
      }
      add(std::move(node));
    }
  }

  graph::Value& value(const plan::TensorInfo& info) {
    graph::Value value;
    value.name = info.name;
    value.type = info.type;
    return joined_.values[index(add(std::move(value)))];
  }

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
  for (const auto& stage : package.plan.stages) {
    for (const auto& partition : stage.partitions) {
      PENSTOCK_TRY(auto graph, graph::import_onnx(package.folder / partition.model, import));
      joiner.add(std::move(graph));
    }
  }
  for (const auto& parameter : package.plan.parameters) {
    PENSTOCK_TRY(auto value, read_npy(package.folder / parameter.file, parameter.type.dtype));
    joiner.value({parameter.name, parameter.type}).constant = std::move(value);
  }
  return std::move(joiner).finish(package.plan);
}

}  // namespace penstock
