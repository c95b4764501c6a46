// Searches an engine's error for a node's name or operator, and adds what that node reads.
#include "penstock/session/refused_node.h"

#include <algorithm>
#include <string>
#include <utility>

#include "penstock/graph/import.h"
#include "penstock/graph/refusal.h"
#include "penstock/session/session.h"

namespace penstock {
namespace {

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool names(const std::string& text, const graph::Node& node) {
  if (node.name.empty()) return false;
  return holds(text, "'" + node.name + "'") || holds(text, "(" + node.name + ")");
}

/// As ONNX Runtime writes an operator that it does not have: "acme:Foo(-1) is not registered".
bool names_operator_of(const std::string& text, const graph::Node& node) {
  return holds(text, concat(node.domain.empty() ? "ai.onnx" : node.domain, ":", node.op, "("));
}

std::string describe(const graph::Graph& graph, const graph::Node& node) {
  std::vector<std::string> inputs;
  for (const auto id : node.inputs) {
    if (id == graph::ValueId::kNone) continue;
    const auto& value = graph.value(id);
    inputs.push_back(concat("'", value.name, "' ", value.type));
  }
  const auto* const what = inputs.empty() ? " reads nothing" : " reads ";
  return concat("; node '", node.name, "' (", node.op, ")", what, join(inputs, ", "));
}

/// Whether it is of an engine that was given a model.
bool is_of_a_model(const Error& error) {
  return std::ranges::any_of(error.places,
                             [](const Where& place) { return place.kind == Where::kModel; });
}

/// The node that the reason names; null: none, or not alone.
const graph::Node* named_node(const Error& error, const graph::Graph& graph) {
  for (const bool by_name : {true, false}) {
    const auto found = std::ranges::find_if(graph.nodes, [&](const graph::Node& node) {
      return by_name ? names(error.reason, node) : names_operator_of(error.reason, node);
    });
    if (found != graph.nodes.end()) return &*found;
  }
  return nullptr;
}

}  // namespace

Error name_refused_node(Error error, const graph::Graph& graph) {
  const auto* const node = is_of_a_model(error) ? named_node(error, graph) : nullptr;
  if (node == nullptr) return error;
  return std::move(error).adding(describe(graph, *node));
}

std::string foretell_refusal(const graph::Graph& graph, const backend::Registry& backends,
                             const std::vector<std::filesystem::path>& custom_ops) {
  const auto engine = make_engine(backends, custom_ops);
  if (!engine) return {};
  auto refusal = graph::refusal_of(graph, *engine);
  if (!refusal) return {};
  const auto* const node = named_node(*refusal, graph);
  return concat("ONNX Runtime will refuse this network: ", refusal->reason,
                node == nullptr ? std::string() : describe(graph, *node),
                "; another version of the engine may take it ('penstock backends' shows which is "
                "here)");
}

Error name_refused_node(Error error, const plan::Package& package) {
  const auto is_stage = [&](const plan::Stage& stage) {
    return std::ranges::any_of(error.places, [&](const Where& place) {
      return place.kind == Where::kStage && place.name == stage.name;
    });
  };
  if (!is_of_a_model(error)) return error;
  for (const auto& stage : package.plan.stages) {
    if (!is_stage(stage)) continue;
    for (const auto& partition : stage.partitions) {
      const auto graph = graph::import_onnx(package.folder / partition.model, {.as_is = true});
      if (graph && named_node(error, *graph) != nullptr) {
        return name_refused_node(std::move(error), *graph);
      }
    }
  }
  return error;
}

}  // namespace penstock
