#include "penstock/graph/branches.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "penstock/graph/clean.h"
#include "penstock/graph/proto.h"

namespace penstock::graph {
namespace {

using Names = std::unordered_map<std::string, std::string>;

std::unordered_set<std::string> locals_of(const onnx::GraphProto& graph) {
  std::unordered_set<std::string> names;
  for (const auto& input : graph.input()) names.insert(input.name());
  for (const auto& constant : graph.initializer()) names.insert(constant.name());
  for (const auto& constant : graph.sparse_initializer()) names.insert(constant.values().name());
  for (const auto& node : graph.node()) names.insert(node.output().begin(), node.output().end());
  return names;
}

/// Gives what the graph reads from outside other names.
void rename_captures(onnx::GraphProto& graph, Names names) {
  for (const auto& local : locals_of(graph)) names.erase(local);
  const auto rename = [&](std::string& name) {
    if (const auto found = names.find(name); found != names.end()) name = found->second;
  };
  for (auto& node : *graph.mutable_node()) {
    for (auto& input : *node.mutable_input()) rename(input);
    for_each_nested_graph(node, [&](onnx::GraphProto& nested) { rename_captures(nested, names); });
  }
  for (auto& output : *graph.mutable_output()) rename(*output.mutable_name());
}

class BranchTaker {
 public:
  explicit BranchTaker(Draft& draft) : draft_(draft), graph_(draft.graph) {
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      by_name_.emplace(graph_.values[i].name, static_cast<ValueId>(i));
    }
  }

  Result<bool> run() {
    bool any = false;
    const auto nodes = std::exchange(graph_.nodes, {});
    const auto stages = std::exchange(graph_.pipeline_stages, {});
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      stage_ = stages[i];
      const auto branch = known_branch(nodes[i]);
      if (!branch) {
        add(nodes[i]);
        continue;
      }
      PENSTOCK_CHECK_OK(take(nodes[i], *branch));
      any = true;
    }
    if (any) PENSTOCK_CHECK_OK(make_constants(draft_));
    return any;
  }

 private:
  /// The branch that an If always takes; empty for all other nodes.
  [[nodiscard]] std::optional<onnx::GraphProto> known_branch(const Node& node) const {
    const bool is_if = node.op == "If" && node.domain.empty() && node.inputs.size() == 1 &&
                       node.inputs[0] != ValueId::kNone;
    if (!is_if) return std::nullopt;
    const auto& condition = graph_.value(node.inputs[0]);
    if (!condition.constant || condition.is_parameter || condition.is_input ||
        condition.constant->dtype() != DType::kBool || condition.constant->bytes() != 1) {
      return std::nullopt;
    }
    const bool value = *static_cast<const unsigned char*>(condition.constant->data()) != 0;
    const auto* attribute = node.find(value ? "then_branch" : "else_branch");
    onnx::AttributeProto proto;
    if (attribute == nullptr || !fill(*attribute, proto) || !proto.has_g()) return std::nullopt;
    const auto& branch = proto.g();
    const auto known = [&](const std::string& name) {
      return std::ranges::any_of(node.captures,
                                 [&](ValueId id) { return graph_.value(id).name == name; });
    };
    const bool closed = std::ranges::all_of(captured_names(branch), known);
    const auto outputs = static_cast<std::size_t>(branch.output_size());
    if (!closed || branch.input_size() > 0 || outputs != node.outputs.size()) return std::nullopt;
    return branch;
  }

  Status take(const Node& node, const onnx::GraphProto& branch) {
    begin_scope(node, branch);
    for (const auto& proto : branch.initializer()) {
      PENSTOCK_CHECK_OK(define_constant(proto.name(), tensor_of(proto)));
    }
    for (const auto& proto : branch.sparse_initializer()) {
      PENSTOCK_CHECK_OK(define_constant(proto.values().name(), tensor_of(proto)));
    }
    for (const auto& proto : branch.node()) add(node_of(proto));
    for (const auto& [name, output] : copies_) {
      Node copy;
      copy.op = "Identity";
      copy.inputs = {scope_.at(name)};
      copy.outputs = {output};
      add(std::move(copy));
    }
    for (const auto& info : branch.value_info()) {
      const auto local = scope_.find(info.name());
      if (local == scope_.end()) continue;
      auto& type = graph_.values[index(local->second)].type;
      if (type.kind == Type::Kind::kUnknown) type = type_of(info.type());
    }
    return {};
  }

  void begin_scope(const Node& node, const onnx::GraphProto& branch) {
    scope_.clear();
    renamed_.clear();
    outputs_.clear();
    copies_.clear();
    for (const auto id : node.captures) scope_[graph_.value(id).name] = id;
    const auto locals = locals_of(branch);
    std::string first;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const auto id = node.outputs[i];
      if (id == ValueId::kNone) continue;
      if (first.empty()) first = graph_.value(id).name;
      const auto& name = branch.output(static_cast<int>(i)).name();
      // What the branch makes gets the If's own name; what it only hands on is copied.
      if (!locals.contains(name) || !outputs_.emplace(name, id).second) {
        copies_.emplace_back(name, id);
      }
    }
    prefix_ = (node.name.empty() ? first : node.name) + "/";
    draft_.remove(node.name, "removed, an If that always takes one branch, which makes", first);
  }

  /// Names of exporters may begin with '/'.
  [[nodiscard]] std::string prefixed(const std::string& name) const {
    return prefix_ + (name.starts_with('/') ? name.substr(1) : name);
  }

  /// The value for a name that the branch defines.
  ValueId define(const std::string& name) {
    if (name.empty()) return ValueId::kNone;
    if (const auto output = outputs_.find(name); output != outputs_.end()) {
      scope_[name] = output->second;
    } else {
      const std::string base = prefixed(name);
      std::string fresh = base;
      for (int copy = 2; by_name_.contains(fresh); ++copy) fresh = concat(base, "_", copy);
      scope_[name] = static_cast<ValueId>(graph_.values.size());
      by_name_.emplace(fresh, scope_[name]);
      graph_.values.emplace_back();
      graph_.values.back().name = std::move(fresh);
    }
    renamed_[name] = graph_.value(scope_[name]).name;
    return scope_[name];
  }

  Status define_constant(const std::string& name, Result<Tensor> tensor) {
    if (!tensor) return std::move(tensor).error().within({Where::kConstant, name});
    auto& value = graph_.values[index(define(name))];
    value.type = (*tensor).type();
    value.constant = *std::move(tensor);
    return {};
  }

  Node node_of(onnx::NodeProto proto) {
    Node node;
    if (!proto.name().empty()) node.name = prefixed(proto.name());
    node.op = proto.op_type();
    node.domain = proto.domain();
    node.overload = proto.overload();
    for (const auto& name : proto.input()) {
      node.inputs.push_back(name.empty() ? ValueId::kNone : scope_.at(name));
    }
    std::ranges::sort(*proto.mutable_attribute(), {},
                      [](const auto& attribute) { return attribute.name(); });
    for_each_nested_graph(proto, [&](onnx::GraphProto& nested) {
      for (const auto& name : captured_names(nested)) {
        const auto id = scope_.at(name);
        if (!std::ranges::count(node.captures, id)) node.captures.push_back(id);
      }
      rename_captures(nested, renamed_);
    });
    for (const auto& name : proto.output()) node.outputs.push_back(define(name));
    for (const auto& attribute : proto.attribute()) {
      node.attributes.push_back(attribute_of(attribute));
    }
    for (const auto& entry : proto.metadata_props()) node.metadata[entry.key()] = entry.value();
    return node;
  }

  void add(Node node) {
    graph_.nodes.push_back(std::move(node));
    graph_.pipeline_stages.push_back(stage_);
  }

  Draft& draft_;
  Graph& graph_;
  std::unordered_map<std::string, ValueId> by_name_;
  int stage_ = -1;
  // Of the branch in hand.
  std::string prefix_;
  std::unordered_map<std::string, ValueId> scope_;    // What its nodes may read.
  std::unordered_map<std::string, ValueId> outputs_;  // The If's.
  Names renamed_;
  std::vector<std::pair<std::string, ValueId>> copies_;
};

}  // namespace

Result<bool> take_known_branches(Draft& draft) {
  return BranchTaker(draft).run();
}

}  // namespace penstock::graph
