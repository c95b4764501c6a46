// Parses without weights, lets ONNX infer shapes, and walks the graphs scope by scope.
#include "penstock/graph/outline.h"

#include <algorithm>
#include <map>

#include <onnx/shape_inference/implementation.h>

#include "penstock/graph/external_data.h"
#include "penstock/graph/functions.h"
#include "penstock/graph/normalise.h"
#include "penstock/graph/proto.h"

namespace penstock::graph {
namespace {

/// What is known of the values that a graph sees.
struct Seen {
  std::map<std::string, Type> types;
  std::map<std::string, std::optional<std::int64_t>> constants;
};
using Ops = std::span<const std::string_view>;

bool is_one_of(const onnx::NodeProto& node, Ops ops) {
  const bool is_known = node.domain().empty() || node.domain() == "com.microsoft";
  return is_known && std::ranges::find(ops, node.op_type()) != ops.end();
}

bool holds(const Nodes& nodes, Ops ops) {
  return find_node(nodes, [&](const auto& node) { return is_one_of(node, ops); }) != nullptr;
}

bool holds(const onnx::ModelProto& model, Ops ops) {
  return holds(model.graph().node(), ops) ||
         std::ranges::any_of(model.functions(), [&](const onnx::FunctionProto& function) {
           return holds(function.node(), ops);
         });
}

Type type_of_constant(std::int32_t dtype, const auto& sizes) {
  onnx::TypeProto proto;
  proto.mutable_tensor_type()->set_elem_type(dtype);
  auto* shape = proto.mutable_tensor_type()->mutable_shape();
  for (const auto size : sizes) shape->add_dim()->set_dim_value(size);
  return graph::type_of(proto);
}

std::optional<std::int64_t> number_in(const onnx::TensorProto& proto) {
  if (proto.data_type() != onnx::TensorProto::INT64) return std::nullopt;
  const auto value = tensor_of(proto);
  if (!value || value->as<std::int64_t>().size() != 1) return std::nullopt;
  return value->as<std::int64_t>().front();
}

std::optional<std::int64_t> number_in(const onnx::NodeProto& constant) {
  for (const auto& attribute : constant.attribute()) {
    if (attribute.name() == "value" && attribute.has_t()) return number_in(attribute.t());
    if (attribute.name() == "value_int") return attribute.i();
    const bool is_one = attribute.name() == "value_ints" && attribute.ints_size() == 1;
    if (is_one) return attribute.ints(0);
  }
  return std::nullopt;
}

Seen values_of(const onnx::GraphProto& graph, const Seen* around) {
  Seen seen = around == nullptr ? Seen() : *around;
  for (const auto* list : {&graph.input(), &graph.value_info(), &graph.output()}) {
    for (const auto& info : *list) seen.types[info.name()] = graph::type_of(info.type());
  }
  for (const auto& constant : graph.initializer()) {
    seen.types[constant.name()] = type_of_constant(constant.data_type(), constant.dims());
    seen.constants[constant.name()] = number_in(constant);
  }
  for (const auto& node : graph.node()) {
    if (is_constant(node)) seen.constants[node.output(0)] = number_in(node);
  }
  return seen;
}

bool gives_output(const onnx::NodeProto& node, const onnx::GraphProto& graph) {
  return std::ranges::any_of(graph.output(), [&](const onnx::ValueInfoProto& output) {
    return std::ranges::find(node.output(), output.name()) != node.output().end();
  });
}

/// `around`: the values around the graph, which its own hide; null: it is the main one.
void walk(const onnx::GraphProto& graph, const Seen* around, Ops ops,
          std::vector<OutlinedNode>& found) {
  Seen seen = values_of(graph, around);
  const auto typed = [&](const auto& names) {
    std::vector<OutlinedNode::Value> values;
    for (const auto& name : names) values.emplace_back(name, seen.types[name]);
    return values;
  };
  for (const auto& node : graph.node()) {
    if (is_one_of(node, ops)) {
      found.push_back({place_of(node),
                       node.op_type(),
                       around != nullptr,
                       gives_output(node, graph),
                       typed(node.input()),
                       typed(node.output()),
                       {}});
      for (const auto& name : node.input()) {
        const auto constant = seen.constants.find(name);
        if (constant != seen.constants.end()) found.back().constants.insert(*constant);
      }
    }
    for_each_nested_graph(node,
                          [&](const onnx::GraphProto& nested) { walk(nested, &seen, ops, found); });
  }
}

/// Inference carries only dimensions that have a symbol on to other values.
void name_dimensions(onnx::GraphProto& graph) {
  for (auto& input : *graph.mutable_input()) {
    if (!input.type().tensor_type().has_shape()) continue;
    auto& dims = *input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim();
    for (int i = 0; i < dims.size(); ++i) {
      const bool is_open = !dims[i].has_dim_value() && dims[i].dim_param().empty();
      if (is_open) dims[i].set_dim_param(concat(input.name(), " axis ", i));
    }
  }
}

/// What a file tells of sizes behind its inputs may be wrong: ONNX Runtime warns of it and goes on,
/// while ONNX's inference would keep what was told.
void believe_inputs_only(onnx::GraphProto& graph) {
  graph.clear_value_info();
  for (auto& output : *graph.mutable_output()) forget_shape(output);
  for (auto& node : *graph.mutable_node()) {
    for_each_nested_graph(node, [](onnx::GraphProto& nested) {
      for (auto& input : *nested.mutable_input()) forget_shape(input);
      believe_inputs_only(nested);
    });
  }
}

Result<Outline> outline_of(std::string_view bytes, Ops ops) {
  PENSTOCK_TRY(onnx::ModelProto model, parse_model(bytes));
  Outline found;
  if (!holds(model, ops)) return found;
  normalise(model);
  drop_shadowed_functions(model);
  PENSTOCK_CHECK_OK(align_opsets(model));
  PENSTOCK_CHECK_OK(inline_functions(model));
  believe_inputs_only(*model.mutable_graph());
  name_dimensions(*model.mutable_graph());
  onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(),
                                     onnx::ShapeInferenceOptions(false, 0, true));
  for (const auto& input : model.graph().input()) {
    found.inputs.emplace_back(input.name(), graph::type_of(input.type()));
  }
  walk(model.graph(), nullptr, ops, found.nodes);
  return found;
}

}  // namespace

Result<Outline> outline(const std::filesystem::path& file, std::string_view bytes, Ops ops) {
  return guarded(Code::kDataLoss, "not an ONNX model", [&]() -> Result<Outline> {
    if (file.empty()) return outline_of(bytes, ops);
    PENSTOCK_TRY(const auto mapped, MappedFile::open(file));
    return outline_of(mapped->bytes(), ops);
  });
}

}  // namespace penstock::graph
