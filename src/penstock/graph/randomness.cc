// Looks for operators that draw and for Dropouts that may train, in nested graphs too.
#include "penstock/graph/randomness.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <variant>

#include <onnx/onnx_pb.h>

#include "penstock/graph/proto.h"
#include "penstock/tensor/number.h"

namespace penstock::graph {
namespace {

bool draws(std::string_view op) {
  static const std::unordered_set<std::string_view> kOps = {"RandomNormal",  "RandomNormalLike",
                                                            "RandomUniform", "RandomUniformLike",
                                                            "Multinomial",   "Bernoulli"};
  return kOps.contains(op);
}

/// The inputs of a Dropout that say how many values it drops, and whether it trains.
constexpr std::size_t kRatio = 1, kTraining = 2;

using Names = std::unordered_set<std::string>;

bool is_false(const Tensor& tensor) {
  return tensor.kind() == Tensor::Kind::kDense && tensor.count() > 0 &&
         tensor.dtype() == DType::kBool && !*static_cast<const bool*>(tensor.data());
}

bool is_false(const onnx::TensorProto& proto) {
  if (proto.data_type() != onnx::TensorProto::BOOL) return false;
  const auto tensor = tensor_of(proto);
  return tensor && is_false(*tensor);
}

/// `never`: names of outer constants that are false; on return this graph's too.
void note_false(const onnx::GraphProto& graph, Names& never) {
  for (const auto& name : names_in(graph)) never.erase(name);
  for (const auto& constant : graph.initializer()) {
    if (is_false(constant)) never.insert(constant.name());
  }
  for (const auto& node : graph.node()) {
    if (!is_constant(node)) continue;
    for (const auto& attribute : node.attribute()) {
      if (attribute.name() == "value" && is_false(attribute.t())) never.insert(node.output(0));
    }
  }
}

bool has_random_node(const onnx::GraphProto& graph, Names never) {
  note_false(graph, never);
  return std::ranges::any_of(graph.node(), [&](const onnx::NodeProto& node) {
    const bool trains = node.op_type() == "Dropout" && node.input_size() > int{kTraining} &&
                        !node.input(kTraining).empty() && !never.contains(node.input(kTraining));
    bool random = draws(node.op_type()) || trains;
    for_each_nested_graph(node, [&](const onnx::GraphProto& nested) {
      random = random || has_random_node(nested, never);
    });
    return random;
  });
}

bool has_random_body(const Graph& graph, const Node& node) {
  Names never;
  for (const auto id : node.captures) {
    const auto& value = graph.value(id);
    if (value.constant && !value.is_parameter && is_false(*value.constant)) {
      never.insert(value.name);
    }
  }
  return std::ranges::any_of(node.attributes, [&](const Attribute& attribute) {
    if (!std::holds_alternative<Attribute::Opaque>(attribute.value)) return false;
    onnx::NodeProto holder;
    if (!fill(attribute, *holder.add_attribute())) return true;
    bool random = false;
    for_each_nested_graph(holder, [&](const onnx::GraphProto& nested) {
      random = random || has_random_node(nested, never);
    });
    return random;
  });
}

/// Where that is a constant.
bool drops_nothing(const Graph& graph, const Node& node) {
  if (node.inputs[kRatio] == ValueId::kNone) return false;
  const auto& value = graph.value(node.inputs[kRatio]);
  if (!value.constant || value.is_parameter) return false;
  const auto& ratio = *value.constant;
  return ratio.kind() == Tensor::Kind::kDense && ratio.count() == 1 && is_float(ratio.dtype()) &&
         number_from_bits(ratio.dtype(), load_bits(ratio.dtype(), ratio.data(), 0)) == 0;
}

bool trains(const Graph& graph, const Node& node) {
  if (node.op != "Dropout" || node.inputs.size() <= kTraining) return false;
  const auto id = node.inputs[kTraining];
  if (id == ValueId::kNone || drops_nothing(graph, node)) return false;
  const auto& constant = graph.value(id).constant;
  return !constant || !is_false(*constant);
}

}  // namespace

bool is_random(const Graph& graph, const Node& node) {
  return draws(node.op) || trains(graph, node) || has_random_body(graph, node);
}

}  // namespace penstock::graph
