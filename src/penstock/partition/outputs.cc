// Adds Identity nodes to a copy of the graph, for constant outputs and where no node is left.
#include "penstock/partition/outputs.h"

#include <algorithm>
#include <string>

#include "penstock/graph/captures.h"

namespace penstock::partition {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

std::string unused_name(const Graph& graph, std::string name) {
  while (graph.find_value(name) || graph.find_node(name)) name += "_";
  return name;
}

NodeId add_identity(Graph& graph, ValueId from, ValueId to) {
  const auto node = static_cast<NodeId>(graph.nodes.size());
  graph::Node identity;
  identity.name = unused_name(graph, graph.value(to).name + "/identity");
  identity.op = "Identity";
  identity.inputs = {from};
  identity.outputs = {to};
  graph.nodes.push_back(std::move(identity));
  graph.pipeline_stages.push_back(-1);
  graph.info.opsets.try_emplace("", 13);
  graph.values[index(from)].consumers.push_back(node);
  graph.values[index(to)].producer = node;
  return node;
}

/// A name that no graph nested in a reader of the value hides either.
Result<std::string> name_for_readers(const Graph& graph, const graph::Value& value,
                                     const std::string& wanted) {
  std::string name = unused_name(graph, wanted);
  for (std::size_t i = 0; i < value.consumers.size();) {
    PENSTOCK_TRY(const bool hidden, graph::hides(graph.nodes[index(value.consumers[i])], name));
    if (hidden) name = unused_name(graph, name + "_");
    i = hidden ? 0 : i + 1;
  }
  return name;
}

/// Gives the constant another name and makes the output of its old one; its readers keep reading
/// the constant, so that no stage depends on another for it.
Result<NodeId> move_constant(Graph& graph, ValueId output) {
  auto copy = graph.value(output);
  PENSTOCK_TRY(copy.name, name_for_readers(graph, copy, copy.name + "/constant"));
  copy.is_output = copy.is_input = false;
  const auto constant = static_cast<ValueId>(graph.values.size());
  graph.values.push_back(std::move(copy));
  auto& value = graph.values[index(output)];
  for (const auto consumer : value.consumers) {
    auto& node = graph.nodes[index(consumer)];
    std::ranges::replace(node.inputs, output, constant);
    if (std::ranges::find(node.captures, output) == node.captures.end()) continue;
    std::ranges::replace(node.captures, output, constant);
    PENSTOCK_CHECK_OK(graph::rename_captured(node, value.name, graph.value(constant).name));
  }
  value.constant.reset();
  value.is_input = false;
  value.consumers.clear();
  return add_identity(graph, constant, output);
}

NodeId copy_input(Graph& graph, ValueId input) {
  graph::Value copy;
  copy.name = unused_name(graph, graph.value(input).name + "/unused");
  copy.type = graph.value(input).type;
  copy.is_output = true;
  const auto made = static_cast<ValueId>(graph.values.size());
  graph.values.push_back(std::move(copy));
  return add_identity(graph, input, made);
}

Status check(const Graph& graph, ValueId output) {
  const auto& value = graph.value(output);
  if (value.is_parameter) {
    return make_error(Code::kUnimplemented, "is itself a parameter; leave it out of the parameters")
        .within({Where::kOutput, value.name});
  }
  return {};
}

}  // namespace

Result<Writable> make_writable(const Graph& graph, Stages stages) {
  Writable result{nullptr, std::move(stages)};
  if (result.stages.empty()) result.stages.emplace_back();
  auto& last = result.stages.back();
  const auto copy = [&]() -> Graph& {
    if (!result.changed) result.changed = std::make_unique<Graph>(graph);
    return *result.changed;
  };
  for (const auto output : graph.outputs) {
    const auto& value = result.changed ? result.changed->value(output) : graph.value(output);
    if (!value.constant) continue;
    PENSTOCK_CHECK_OK(check(graph, output));
    PENSTOCK_TRY(const auto added, move_constant(copy(), output));
    last.push_back(added);
  }
  if (last.empty() && !graph.inputs.empty()) {
    last.push_back(copy_input(copy(), graph.inputs.front()));
  }
  return result;
}

}  // namespace penstock::partition
