// Imports a body as a graph, simplifies it and puts it back if that leaves it with fewer Ifs.
#include "penstock/graph/bodies.h"

#include <algorithm>
#include <utility>

#include "penstock/graph/builder.h"
#include "penstock/graph/clean.h"
#include "penstock/graph/inference.h"
#include "penstock/graph/inliner.h"
#include "penstock/graph/loops.h"
#include "penstock/graph/model_proto.h"
#include "penstock/graph/proto.h"
#include "penstock/graph/simplify.h"

namespace penstock::graph {
namespace {

std::size_t count_ifs(const onnx::GraphProto& graph) {
  std::size_t count = 0;
  for_each_node(graph.node(), [&](const onnx::NodeProto& node) {
    count += node.op_type() == "If" && node.domain().empty() ? 1 : 0;
  });
  return count;
}

class BodySimplifier {
 public:
  BodySimplifier(Draft& draft, const Engine& engine)
      : draft_(draft), graph_(draft.graph), engine_(engine) {}

  Result<bool> run() {
    bool any = false;
    for (auto& node : graph_.nodes) {
      bool changed = false;
      for (auto& attribute : node.attributes) {
        if (!std::holds_alternative<Attribute::Opaque>(attribute.value)) continue;
        const auto nested = nested_graph(graph_, node, attribute.name);
        if (!nested || count_ifs(*nested) == 0) continue;
        PENSTOCK_TRY(auto simpler, simplified(node, *nested));
        if (count_ifs(simpler) >= count_ifs(*nested)) continue;
        put(std::move(simpler), attribute);
        changed = true;
      }
      if (changed) capture_anew(node);
      any = any || changed;
    }
    if (any) remove_dead(draft_);
    return any;
  }

 private:
  static void put(onnx::GraphProto graph, Attribute& attribute) {
    onnx::AttributeProto proto;
    proto.set_name(attribute.name);
    proto.set_type(onnx::AttributeProto::GRAPH);
    *proto.mutable_g() = std::move(graph);
    attribute = attribute_of(proto);
  }

  void capture_anew(Node& node) {
    const auto before = captures_of(graph_, node);
    node.captures.clear();
    for (const auto& attribute : node.attributes) {
      onnx::AttributeProto proto;
      if (!fill(attribute, proto) || !proto.has_g()) continue;
      for (const auto& name : captured_names(proto.g())) {
        const auto id = before.at(name);
        if (!std::ranges::count(node.captures, id)) node.captures.push_back(id);
      }
    }
  }

  Result<onnx::GraphProto> simplified(const Node& node, const onnx::GraphProto& nested) {
    PENSTOCK_TRY(Draft inner, draft_of_body(graph_, node, nested));
    inner.taken_outside = names_around();
    inner.unrolled_nodes = kMostUnrolledNodes;  // It stays one node: more of them gain nothing.
    PENSTOCK_CHECK_OK(simplify(inner, engine_));
    return graph_of(inner, nested, captures_of(graph_, node));
  }

  [[nodiscard]] std::unordered_set<std::string> names_around() const {
    auto names = draft_.taken_outside;
    for (const auto& value : graph_.values) names.insert(value.name);
    return names;
  }

  static Result<onnx::GraphProto> graph_of(const Draft& inner, const onnx::GraphProto& nested,
                                           const Scope& captures) {
    const auto& graph = inner.graph;
    Part part;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      part.nodes.push_back(static_cast<NodeId>(i));
    }
    PENSTOCK_TRY(auto model, model_of(graph, part));
    onnx::GraphProto result;
    result.set_name(nested.name());
    *result.mutable_input() = nested.input();
    *result.mutable_output() = nested.output();
    for (const auto& value : graph.values) {
      if (!value.constant || captures.contains(value.name)) continue;
      // An output that no node makes is no output to all engines.
      auto* proto = value.is_output ? constant_node(value.name, result) : result.add_initializer();
      fill(*value.constant, value.is_output ? "" : value.name, *proto);
    }
    result.mutable_node()->MergeFrom(model.graph().node());
    return result;
  }

  static onnx::TensorProto* constant_node(const std::string& output, onnx::GraphProto& graph) {
    auto* node = graph.add_node();
    node->set_op_type("Constant");
    node->add_output(output);
    auto* value = node->add_attribute();
    value->set_name("value");
    value->set_type(onnx::AttributeProto::TENSOR);
    return value->mutable_t();
  }

  Draft& draft_;
  Graph& graph_;
  const Engine& engine_;
};

/// From which of its inputs on a node feeds those of its body, from which on; likewise the outputs,
/// of which the first one is the node's.
struct BodyPorts {
  std::size_t node_input, body_input, body_output;
};

BodyPorts ports_of(const Node& node) {
  if (node.op == "Loop") return {2, 2, 1};
  if (node.op == "Scan") return {0, 0, 0};
  return {node.inputs.size(), 0, 0};
}

Body body_of(const Graph& graph, const Node& node, const onnx::GraphProto& nested, Graph inner) {
  Body body{std::move(inner), {}, {}};
  link(body.graph);
  infer_types(body.graph, Source::kFile);
  const auto note_read = [&](ValueId outer, const std::string& name) {
    const auto found = body.graph.find_value(name);
    if (outer != ValueId::kNone && found && body.graph.value(*found).is_input) {
      body.read.emplace_back(outer, *found);
    }
  };
  const auto ports = ports_of(node);
  for (std::size_t i = ports.node_input; i < node.inputs.size(); ++i) {
    const auto place = i - ports.node_input + ports.body_input;
    if (place >= static_cast<std::size_t>(nested.input_size())) break;
    note_read(node.inputs[i], nested.input(static_cast<int>(place)).name());
  }
  for (const auto id : node.captures) note_read(id, graph.value(id).name);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const auto place = i + ports.body_output;
    if (node.outputs[i] == ValueId::kNone || place >= body.graph.outputs.size()) continue;
    body.made.emplace_back(node.outputs[i], body.graph.outputs[place]);
  }
  return body;
}

}  // namespace

Result<Draft> draft_of_body(const Graph& graph, const Node& node, const onnx::GraphProto& nested) {
  onnx::ModelProto model;
  model.set_ir_version(graph.info.ir_version);
  for (const auto& [domain, version] : graph.info.opsets) {
    auto* opset = model.add_opset_import();
    opset->set_domain(domain);
    opset->set_version(version);
  }
  auto& body = *model.mutable_graph();
  body = nested;
  body.clear_value_info();
  // Sizes that the file gives to what a body is fed with need not hold for each iteration.
  for (auto& input : *body.mutable_input()) forget_shape(input);
  for (auto& output : *body.mutable_output()) forget_shape(output);
  Sources sources{graph.info.ir_version, {}};
  for (const auto& constant : nested.initializer()) {
    PENSTOCK_TRY(sources.weights[constant.name()], tensor_of(constant));
  }
  for (const auto& constant : nested.sparse_initializer()) {
    PENSTOCK_TRY(sources.weights[constant.values().name()], tensor_of(constant));
  }
  const auto scope = captures_of(graph, node);
  for (const auto& name : captured_names(nested)) {
    const auto& value = graph.value(scope.at(name));
    if (value.constant && !value.is_parameter && !value.is_input) {
      body.add_initializer()->set_name(name);
      sources.weights[name] = *value.constant;
    } else {
      fill(value, *body.add_input());
    }
  }
  return draft_of(model, std::move(sources), {});
}

std::vector<Body> bodies_of(const Graph& graph, const Node& node) {
  std::vector<Body> bodies;
  for (const auto& attribute : node.attributes) {
    if (!std::holds_alternative<Attribute::Opaque>(attribute.value)) continue;
    const auto nested = nested_graph(graph, node, attribute.name);
    if (!nested) continue;
    auto draft = draft_of_body(graph, node, *nested);
    if (!draft || !make_constants(*draft)) continue;
    bodies.push_back(body_of(graph, node, *nested, std::move(draft->graph)));
  }
  return bodies;
}

Result<bool> simplify_bodies(Draft& draft, const Engine& engine) {
  return BodySimplifier(draft, engine).run();
}

}  // namespace penstock::graph
