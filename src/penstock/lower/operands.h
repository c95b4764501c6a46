// What a lowering reads of a node: its operands, where they are constant, and its attributes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/graph/graph.h"
#include "penstock/tensor/tensor.h"

namespace penstock::lower {

using Dims = std::vector<std::int64_t>;

Dims dims_of(const Type& type);     ///< \pre every dimension is fixed.
Dims spatial_of(const Dims& dims);  ///< Without the batch and the channels. \pre two or more

/// An axis counted from the front.
std::size_t from_front(std::int64_t axis, std::size_t rank);

/// Null where it is none, or no value at all. It is the graph's.
const Tensor* constant(const graph::Graph& graph, graph::ValueId id);
/// The numbers of an i64 or i32 constant; empty if it is none.
std::optional<std::vector<std::int64_t>> integers(const graph::Graph& graph, graph::ValueId id);
/// The one element of an f32 constant; empty if it is none.
std::optional<float> scalar(const graph::Graph& graph, graph::ValueId id);
/// The node that alone reads the value, once; empty where others do or it leaves the graph.
std::optional<graph::NodeId> only_reader(const graph::Graph& graph, graph::ValueId id);

float float_or(const graph::Node& node, std::string_view name, float otherwise);
std::string string_or(const graph::Node& node, std::string_view name, const std::string& otherwise);

/// kUnimplemented: what of the operator is not done, and what was found.
template <typename... Args>
Error unsupported(const Args&... args) {
  return make_error(Code::kUnimplemented, args...);
}

}  // namespace penstock::lower
