// Finds nodes, values and attributes by name in a linear search.
#include "penstock/graph/graph.h"

#include <algorithm>

namespace penstock::graph {

const Attribute* Node::find(std::string_view wanted) const {
  const auto found = std::ranges::find(attributes, wanted, &Attribute::name);
  return found == attributes.end() ? nullptr : &*found;
}

std::int64_t Node::int_or(std::string_view wanted, std::int64_t otherwise) const {
  const auto* attribute = find(wanted);
  const auto* value = attribute != nullptr ? std::get_if<std::int64_t>(&attribute->value) : nullptr;
  return value != nullptr ? *value : otherwise;
}

std::vector<std::int64_t> Node::ints_or(std::string_view wanted,
                                        std::vector<std::int64_t> otherwise) const {
  const auto* attribute = find(wanted);
  const auto* value =
      attribute != nullptr ? std::get_if<std::vector<std::int64_t>>(&attribute->value) : nullptr;
  return value != nullptr ? *value : std::move(otherwise);
}

std::vector<Where> Graph::place_of(const Node& node) const {
  const auto made =
      std::ranges::find_if(node.outputs, [](auto id) { return id != ValueId::kNone; });
  return place_of_node(node.name, node.op, made == node.outputs.end() ? "" : value(*made).name);
}

std::optional<NodeId> Graph::find_node(std::string_view name) const {
  const auto found = std::ranges::find(nodes, name, &Node::name);
  if (found == nodes.end()) return std::nullopt;
  return static_cast<NodeId>(found - nodes.begin());
}

std::optional<ValueId> Graph::find_value(std::string_view name) const {
  const auto found = std::ranges::find(values, name, &Value::name);
  if (found == values.end()) return std::nullopt;
  return static_cast<ValueId>(found - values.begin());
}

}  // namespace penstock::graph
