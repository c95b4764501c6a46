// Our values <-> ONNX's messages, and walks of these. Internal to graph.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include <onnx/onnx_pb.h>

#include "penstock/base/result.h"
#include "penstock/graph/graph.h"

namespace penstock::graph {

/// The first IR versions whose initialisers need not be inputs, and whose nodes have metadata.
inline constexpr std::int64_t kFreeInitialisersIr = 4;
inline constexpr std::int64_t kNodeMetadataIr = 10;

/// Weights above this size never stand in a protobuf message: they are moved out before parsing.
inline constexpr std::size_t kInlineBytes = 64 * 1024;

/// The largest tensor that import is willing to unfold from a compressed form.
inline constexpr std::size_t kUnfoldedBytes = std::size_t{1} << 30;

/// Bytes of a dense tensor; empty if a dimension is negative or the product overflows.
std::optional<std::size_t> checked_bytes(DType dtype, const std::vector<std::int64_t>& dims);

/// Uninitialised, 64-byte aligned storage of its own.
Result<Tensor> uninitialised(DType dtype, std::vector<std::int64_t> dims);

/// \pre  not stored externally: see DataReader.
/// \error kDataLoss  the data do not fill the shape; names the tensor.
Result<Tensor> tensor_of(const onnx::TensorProto& proto);
/// Dense; \error kResourceExhausted over kUnfoldedBytes.
Result<Tensor> tensor_of(const onnx::SparseTensorProto& proto);

/// Name, dtype and dims; the strings of a string tensor, but no numbers.
void fill_header(const Tensor& tensor, const std::string& name, onnx::TensorProto& proto);
/// fill_header(), and the numbers as raw_data.
void fill(const Tensor& tensor, const std::string& name, onnx::TensorProto& proto);

Type type_of(const onnx::TypeProto& proto);
/// False, and nothing filled, for an unknown type.
bool fill(const Type& type, onnx::TypeProto& proto);

Attribute attribute_of(const onnx::AttributeProto& proto);
/// \error kDataLoss  an opaque attribute that cannot be read back.
Status fill(const Attribute& attribute, onnx::AttributeProto& proto);

/// Of a tensor only the type of its elements stays.
void forget_shape(onnx::ValueInfoProto& info);

/// For errors; see place_of_node().
std::vector<Where> place_of(const onnx::NodeProto& node);

/// Calls `visit(graph)` for every graph that stands directly in the node's attributes.
template <typename Node, typename Visit>
void for_each_nested_graph(Node& node, Visit visit) {
  if constexpr (std::is_const_v<Node>) {
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) visit(attribute.g());
      for (const auto& graph : attribute.graphs()) visit(graph);
    }
  } else {
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) visit(*attribute.mutable_g());
      for (auto& graph : *attribute.mutable_graphs()) visit(graph);
    }
  }
}

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

/// Calls `visit(node)` for every node, and for those of graphs nested in it, at every depth.
template <typename NodeList, typename Visit>
void for_each_node(NodeList& nodes, Visit visit) {
  for (auto& node : nodes) {
    visit(node);
    for_each_nested_graph(node, [&](auto& nested) {
      if constexpr (std::is_const_v<std::remove_reference_t<decltype(nested)>>) {
        for_each_node(nested.node(), visit);
      } else {
        for_each_node(*nested.mutable_node(), visit);
      }
    });
  }
}

/// The first node, at any depth, for which `is_sought(node)` is true; null: none.
template <typename Sought>
const onnx::NodeProto* find_node(const Nodes& nodes, const Sought& is_sought) {
  for (const auto& node : nodes) {
    if (is_sought(node)) return &node;
    const onnx::NodeProto* found = nullptr;
    for_each_nested_graph(node, [&](const onnx::GraphProto& nested) {
      if (found == nullptr) found = find_node(nested.node(), is_sought);
    });
    if (found != nullptr) return found;
  }
  return nullptr;
}

/// Whether the node only holds a value, and its output has a name.
bool is_constant(const onnx::NodeProto& node);

/// Names of the graph's own values: inputs, constants, and what its nodes make.
std::unordered_set<std::string> names_in(const onnx::GraphProto& graph);
/// Names that `graph` reads and does not define, in order of first use.
std::vector<std::string> captured_names(const onnx::GraphProto& graph);

/// Runs `body`, turning what ONNX's library throws into an Error with the first line of its text.
template <typename Body>
auto guarded(Code code, std::string_view place, Body body) -> decltype(body());

/// The first line of an exception's text, without a full stop at the end.
std::string first_line(std::string_view text);

template <typename Body>
auto guarded(Code code, std::string_view place, Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return make_error(Code::kResourceExhausted, place, ": out of memory");
  } catch (const std::exception& e) {
    return make_error(code, place, ": ", first_line(e.what()));
  }
}

}  // namespace penstock::graph
