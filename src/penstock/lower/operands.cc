// Reads constants and attributes off a graph.
#include "penstock/lower/operands.h"

#include <algorithm>

namespace penstock::lower {
namespace {

template <typename T>
T attribute_or(const graph::Node& node, std::string_view name, const T& otherwise) {
  const auto* attribute = node.find(name);
  const auto* value = attribute == nullptr ? nullptr : std::get_if<T>(&attribute->value);
  return value == nullptr ? otherwise : *value;
}

template <typename T>
std::vector<std::int64_t> widened(const Tensor& tensor) {
  const auto values = tensor.as<T>();
  return {values.begin(), values.end()};
}

}  // namespace

Dims dims_of(const Type& type) {
  Dims dims;
  for (const auto& dim : type.dims) dims.push_back(dim.size);
  return dims;
}

Dims spatial_of(const Dims& dims) {
  return {dims.begin() + 2, dims.end()};
}

std::size_t from_front(std::int64_t axis, std::size_t rank) {
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

const Tensor* constant(const graph::Graph& graph, graph::ValueId id) {
  if (id == graph::ValueId::kNone) return nullptr;
  const auto& value = graph.value(id);
  return value.constant ? &*value.constant : nullptr;
}

std::optional<std::vector<std::int64_t>> integers(const graph::Graph& graph, graph::ValueId id) {
  const Tensor* tensor = constant(graph, id);
  if (tensor == nullptr) return {};
  if (tensor->dtype() == DType::kI64) return widened<std::int64_t>(*tensor);
  if (tensor->dtype() == DType::kI32) return widened<std::int32_t>(*tensor);
  return {};
}

std::optional<float> scalar(const graph::Graph& graph, graph::ValueId id) {
  const Tensor* tensor = constant(graph, id);
  if (tensor == nullptr || tensor->dtype() != DType::kF32 || tensor->count() != 1) return {};
  return tensor->as<float>().front();
}

std::optional<graph::NodeId> only_reader(const graph::Graph& graph, graph::ValueId id) {
  const auto& value = graph.value(id);
  if (value.is_output || value.consumers.size() != 1) return {};
  const auto reader = value.consumers.front();
  if (std::ranges::count(graph.node(reader).inputs, id) != 1) return {};
  return reader;
}

float float_or(const graph::Node& node, std::string_view name, float otherwise) {
  return attribute_or<float>(node, name, otherwise);
}

std::string string_or(const graph::Node& node, std::string_view name,
                      const std::string& otherwise) {
  return attribute_or<std::string>(node, name, otherwise);
}

}  // namespace penstock::lower
