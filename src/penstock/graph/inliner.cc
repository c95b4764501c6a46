// Copies nodes and constants under free names and renames what graphs nested deeper capture.
#include "penstock/graph/inliner.h"

#include <algorithm>
#include <utility>

#include "penstock/graph/clean.h"
#include "penstock/graph/free_name.h"
#include "penstock/graph/proto.h"

namespace penstock::graph {
namespace {

/// Of all graphs nested in this one.
void add_nested_names_of_all(const onnx::GraphProto& graph,
                             std::unordered_set<std::string>& names) {
  for (const auto& node : graph.node()) add_nested_names(node, names);
}

}  // namespace

void rename_captures(onnx::GraphProto& graph, NewNames names) {
  for (const auto& local : names_in(graph)) names.erase(local);
  const auto rename = [&](std::string& name) {
    if (const auto found = names.find(name); found != names.end()) name = found->second;
  };
  for (auto& node : *graph.mutable_node()) {
    for (auto& input : *node.mutable_input()) rename(input);
    for_each_nested_graph(node, [&](onnx::GraphProto& nested) { rename_captures(nested, names); });
  }
  for (auto& output : *graph.mutable_output()) rename(*output.mutable_name());
}

void add_nested_names(const onnx::NodeProto& node, std::unordered_set<std::string>& names) {
  for_each_nested_graph(node, [&](const onnx::GraphProto& nested) {
    names.merge(names_in(nested));
    add_nested_names_of_all(nested, names);
  });
}

std::optional<onnx::GraphProto> nested_graph(const Graph& graph, const Node& node,
                                             std::string_view attribute) {
  const auto* found = node.find(attribute);
  onnx::AttributeProto proto;
  if (found == nullptr || !fill(*found, proto) || !proto.has_g()) return std::nullopt;
  const auto scope = captures_of(graph, node);
  const auto known = [&](const std::string& name) { return scope.contains(name); };
  if (!std::ranges::all_of(captured_names(proto.g()), known)) return std::nullopt;
  return std::move(*proto.mutable_g());
}

Scope captures_of(const Graph& graph, const Node& node) {
  Scope scope;
  for (const auto id : node.captures) scope[graph.value(id).name] = id;
  return scope;
}

const Tensor* known_scalar(const Graph& graph, const Node& node, std::size_t input, DType dtype) {
  if (node.inputs.size() <= input || node.inputs[input] == ValueId::kNone) return nullptr;
  const auto& value = graph.value(node.inputs[input]);
  const bool known = value.constant && !value.is_parameter && !value.is_input &&
                     value.constant->dtype() == dtype && value.constant->count() == 1;
  return known ? &*value.constant : nullptr;
}

std::size_t count_nodes(const onnx::GraphProto& graph) {
  std::size_t count = 0;
  for_each_node(graph.node(), [&](const onnx::NodeProto&) { ++count; });
  return count;
}

/// One copy of a nested graph.
class Inliner::Copy {
 public:
  Copy(Inliner& inliner, const onnx::GraphProto& nested, Scope scope)
      : inliner_(inliner), graph_(inliner.graph_), nested_(nested), scope_(std::move(scope)) {}

  std::vector<ValueId> run(const std::vector<ValueId>& wanted) {
    claimed_ = inliner_.claims(nested_, wanted);
    for (const auto& proto : nested_.node()) {
      if (!is_constant(proto)) inliner_.add(node_of(proto));
    }
    std::vector<ValueId> outputs;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto made = scope_.at(nested_.output(static_cast<int>(i)).name());
      outputs.push_back(wanted[i] == ValueId::kNone ? made : wanted[i]);
      if (outputs.back() != made) inliner_.add("Identity", {made}, outputs.back());
    }
    take_types();
    return outputs;
  }

 private:
  /// What the file says of values whose types nothing else tells.
  void take_types() {
    for (const auto& info : nested_.value_info()) {
      const auto local = scope_.find(info.name());
      if (local == scope_.end()) continue;
      auto& type = graph_.values[index(local->second)].type;
      if (type.kind == Type::Kind::kUnknown) type = type_of(info.type());
    }
  }

  ValueId define(const std::string& name) {
    if (name.empty()) return ValueId::kNone;
    const auto claimed = claimed_.find(name);
    const auto id = claimed == claimed_.end() ? inliner_.fresh(name) : claimed->second;
    scope_[name] = id;
    return id;
  }

  /// A copy of the value, for nested graphs where a value of their own hides its name.
  ValueId under_free_name(ValueId value) {
    const auto [known, is_new] = copies_.try_emplace(value, ValueId::kNone);
    if (is_new) {
      const std::string name = graph_.value(value).name;
      known->second = inliner_.add("Identity", {value}, inliner_.fresh(name));
    }
    return known->second;
  }

  Node node_of(onnx::NodeProto proto) {
    Node node;
    if (!proto.name().empty()) node.name = inliner_.prefixed(proto.name());
    node.op = proto.op_type();
    node.domain = proto.domain();
    node.overload = proto.overload();
    for (const auto& name : proto.input()) {
      node.inputs.push_back(name.empty() ? ValueId::kNone : scope_.at(name));
    }
    std::ranges::sort(*proto.mutable_attribute(), {},
                      [](const auto& attribute) { return attribute.name(); });
    std::unordered_set<std::string> own;  // Names of the nested graphs' own values.
    add_nested_names(proto, own);
    for_each_nested_graph(proto, [&](onnx::GraphProto& nested) {
      NewNames renamed;
      for (const auto& name : captured_names(nested)) {
        const auto outer = scope_.at(name);
        const auto id = own.contains(graph_.value(outer).name) ? under_free_name(outer) : outer;
        if (!std::ranges::count(node.captures, id)) node.captures.push_back(id);
        renamed[name] = graph_.value(id).name;
      }
      rename_captures(nested, std::move(renamed));
    });
    for (const auto& name : proto.output()) node.outputs.push_back(define(name));
    for (const auto& attribute : proto.attribute()) {
      node.attributes.push_back(attribute_of(attribute));
    }
    for (const auto& entry : proto.metadata_props()) node.metadata[entry.key()] = entry.value();
    return node;
  }

  Inliner& inliner_;
  Graph& graph_;
  const onnx::GraphProto& nested_;
  Scope scope_;
  Scope claimed_;
  std::unordered_map<ValueId, ValueId> copies_;  // What under_free_name() made.
};

Inliner::Inliner(Draft& draft)
    : draft_(draft),
      graph_(draft.graph),
      nodes_(std::exchange(graph_.nodes, {})),
      stages_(std::exchange(graph_.pipeline_stages, {})) {}

void Inliner::add(Node node) {
  graph_.nodes.push_back(std::move(node));
  graph_.pipeline_stages.push_back(stages_[position_]);
}

ValueId Inliner::add(const std::string& op, std::vector<ValueId> inputs, ValueId output,
                     std::vector<Attribute> attributes) {
  Node node;
  node.op = op;
  node.inputs = std::move(inputs);
  node.outputs = {output};
  node.attributes = std::move(attributes);
  add(std::move(node));
  return output;
}

// Names of exporters may begin with '/'.
std::string Inliner::prefixed(const std::string& name) const {
  return prefix_ + (name.starts_with('/') ? name.substr(1) : name);
}

bool Inliner::take_name(const std::string& name) {
  if (taken_.empty()) {
    taken_ = draft_.taken_outside;
    for (const auto& value : graph_.values) taken_.insert(value.name);
    onnx::GraphProto holder;
    for (const auto& node : nodes_) {
      auto* proto = holder.add_node();
      for (const auto& attribute : node.attributes) {
        if (!std::holds_alternative<Attribute::Opaque>(attribute.value)) continue;
        if (!fill(attribute, *proto->add_attribute())) proto->mutable_attribute()->RemoveLast();
      }
    }
    add_nested_names_of_all(holder, taken_);
  }
  return taken_.insert(name).second;
}

ValueId Inliner::fresh(const std::string& name) {
  auto free = free_name(prefixed(name), [this](const auto& wanted) { return take_name(wanted); });
  graph_.values.emplace_back();
  graph_.values.back().name = std::move(free);
  return static_cast<ValueId>(graph_.values.size() - 1);
}

ValueId Inliner::constant(const std::string& name, Tensor tensor) {
  const auto id = fresh(name);
  auto& value = graph_.values[index(id)];
  value.type = tensor.type();
  value.constant = std::move(tensor);
  return id;
}

Scope Inliner::claims(const onnx::GraphProto& nested, const std::vector<ValueId>& wanted) const {
  std::unordered_set<std::string> nested_locals;
  add_nested_names_of_all(nested, nested_locals);
  const auto locals = names_in(nested);
  Scope claimed;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& name = nested.output(static_cast<int>(i)).name();
    if (wanted[i] == ValueId::kNone || !locals.contains(name)) continue;
    // A graph nested deeper that reads it could not tell it from its own value of that name.
    if (nested_locals.contains(graph_.value(wanted[i]).name)) continue;
    claimed.emplace(name, wanted[i]);
  }
  return claimed;
}

Result<Scope> Inliner::copy_constants(const onnx::GraphProto& nested, const Scope& claimed) {
  Scope scope;
  const auto define = [&](const std::string& name, Result<Tensor> tensor) -> Status {
    if (!tensor) return std::move(tensor).error().within({Where::kConstant, name});
    const auto as = claimed.find(name);
    const auto id = as == claimed.end() ? fresh(name) : as->second;
    auto& value = graph_.values[index(id)];
    value.type = tensor->type();
    value.constant = *std::move(tensor);
    scope[name] = id;
    return {};
  };
  for (const auto& proto : nested.initializer()) {
    PENSTOCK_CHECK_OK(define(proto.name(), tensor_of(proto)));
  }
  for (const auto& proto : nested.sparse_initializer()) {
    PENSTOCK_CHECK_OK(define(proto.values().name(), tensor_of(proto)));
  }
  for (const auto& proto : nested.node()) {
    if (!is_constant(proto)) continue;
    if (proto.attribute_size() != 1) {
      return invalid_argument("expected one attribute of a Constant, found ",
                              proto.attribute_size())
          .within(place_of(proto));
    }
    PENSTOCK_CHECK_OK(define(proto.output(0), constant_of(attribute_of(proto.attribute(0)))));
  }
  return scope;
}

void Inliner::finish() {
  compact(draft_, std::vector<bool>(graph_.nodes.size(), true));
}

std::vector<ValueId> Inliner::copy(const onnx::GraphProto& nested, Scope scope,
                                   const std::vector<ValueId>& wanted) {
  return Copy(*this, nested, std::move(scope)).run(wanted);
}

}  // namespace penstock::graph
