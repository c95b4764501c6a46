// Whether a rule takes a node.
#include <algorithm>

#include "penstock/collage/rules.h"

namespace penstock::collage {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;

bool holds(const Value& value, const Predicate& predicate) {
  const Type& type = value.type;
  const bool tensor = type.kind == Type::Kind::kTensor;
  if (predicate.given && !*predicate.given) return false;
  if (!predicate.dtypes.empty() &&
      (!tensor || std::ranges::find(predicate.dtypes, type.dtype) == predicate.dtypes.end())) {
    return false;
  }
  if (!predicate.ranks.empty() &&
      (!tensor || !type.ranked ||
       std::ranges::find(predicate.ranks, type.dims.size()) == predicate.ranks.end())) {
    return false;
  }
  if (predicate.fixed_shape && (!tensor || !type.ranked || !type.fixed())) return false;
  // A parameter, or an input with a default, is a constant only until it is replaced.
  const bool constant = value.constant && !value.is_parameter && !value.is_input;
  return !predicate.constant || *predicate.constant == constant;
}

bool holds_for_values(const Graph& graph, const std::vector<ValueId>& ids,
                      const Predicate& predicate) {
  const auto holds_at = [&](ValueId id) {
    if (id == ValueId::kNone) return predicate.given != true;
    return holds(graph.value(id), predicate);
  };
  if (!predicate.index) return std::ranges::all_of(ids, holds_at);
  return holds_at(*predicate.index < ids.size() ? ids[*predicate.index] : ValueId::kNone);
}

/// 1 and 1.0 are the same number; a float attribute is compared as a float.
template <typename T>
bool same(const T& found, const AttributeValue& expected) {
  if constexpr (std::is_same_v<T, float>) {
    if (const auto* whole = std::get_if<std::int64_t>(&expected)) {
      return found == static_cast<float>(*whole);
    }
    const auto* number = std::get_if<double>(&expected);
    return number != nullptr && found == static_cast<float>(*number);
  } else if constexpr (std::is_same_v<T, std::vector<float>>) {
    const auto equal = [&](const auto* list) {
      return list != nullptr && std::ranges::equal(found, *list, {}, {}, [](auto number) {
               return static_cast<float>(number);
             });
    };
    return equal(std::get_if<std::vector<double>>(&expected)) ||
           equal(std::get_if<std::vector<std::int64_t>>(&expected));
  } else if constexpr (std::is_same_v<T, graph::Attribute::Opaque>) {
    return false;
  } else {
    const auto* value = std::get_if<T>(&expected);
    if (value != nullptr) return *value == found;
    // An empty list is of every kind.
    const auto* empty = std::get_if<std::vector<std::int64_t>>(&expected);
    if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      return empty != nullptr && empty->empty() && found.empty();
    }
    return false;
  }
}

bool holds_for_attribute(const Node& node, const Predicate& predicate) {
  const auto* attribute = node.find(predicate.attribute);
  return std::ranges::any_of(predicate.values, [&](const AttributeValue& value) {
    if (attribute == nullptr) return std::holds_alternative<std::monostate>(value);
    return std::visit([&](const auto& found) { return same(found, value); }, attribute->value);
  });
}

bool holds(const Graph& graph, const Node& node, const Predicate& predicate) {
  const auto part_holds = [&](const Predicate& part) { return holds(graph, node, part); };
  switch (predicate.kind) {
    case Predicate::Kind::kInput:
      return holds_for_values(graph, node.inputs, predicate);
    case Predicate::Kind::kOutput:
      return holds_for_values(graph, node.outputs, predicate);
    case Predicate::Kind::kAttribute:
      return holds_for_attribute(node, predicate);
    case Predicate::Kind::kNot:
      return std::ranges::none_of(predicate.parts, part_holds);
    case Predicate::Kind::kAny:
      return std::ranges::any_of(predicate.parts, part_holds);
  }
  return false;
}

bool opset_fits(const Graph& graph, const Rule& rule, const Node& node) {
  auto found = graph.info.opsets.find(node.domain);
  if (found == graph.info.opsets.end() && node.domain.empty()) {
    found = graph.info.opsets.find("ai.onnx");
  }
  const bool limited = rule.opset_from > 0 || rule.opset_to < INT64_MAX;
  if (found == graph.info.opsets.end()) return !limited;
  return rule.opset_from <= found->second && found->second <= rule.opset_to;
}

}  // namespace

std::string operator_of(const Node& node) {
  return node.domain.empty() || node.domain == "ai.onnx" ? node.op : node.domain + ":" + node.op;
}

bool takes(const Graph& graph, const Rule& rule, graph::NodeId id) {
  if (rule.kind == Rule::Kind::kAll) return true;
  const Node& node = graph.node(id);
  return std::ranges::find(rule.ops, operator_of(node)) != rule.ops.end() &&
         opset_fits(graph, rule, node) &&
         std::ranges::all_of(rule.where,
                             [&](const Predicate& part) { return holds(graph, node, part); });
}

}  // namespace penstock::collage
