// Turns Constant nodes into constants and removes Identities and nodes that no output needs.
#include "penstock/graph/clean.h"

#include <algorithm>

#include "penstock/graph/proto.h"

namespace penstock::graph {
namespace {

Tensor scalar_of(std::int64_t value) {
  Tensor tensor = Tensor::allocate(DType::kI64, {});
  tensor.as<std::int64_t>()[0] = value;
  return tensor;
}

Tensor scalar_of(float value) {
  Tensor tensor = Tensor::allocate(DType::kF32, {});
  tensor.as<float>()[0] = value;
  return tensor;
}

template <typename T>
Tensor list_of(DType dtype, const std::vector<T>& values) {
  Tensor tensor = Tensor::allocate(dtype, {static_cast<std::int64_t>(values.size())});
  std::ranges::copy(values, tensor.as<T>().begin());
  return tensor;
}

/// Which value stands for which; kept short as it is walked.
class Aliases {
 public:
  explicit Aliases(std::size_t values) : to_(values) {
    for (std::size_t i = 0; i < values; ++i) to_[i] = static_cast<ValueId>(i);
  }
  void set(ValueId from, ValueId to) { to_[index(from)] = to; }
  [[nodiscard]] ValueId of(ValueId id) {
    if (id == ValueId::kNone) return id;
    auto last = id;
    while (to_[index(last)] != last) last = to_[index(last)];
    while (to_[index(id)] != last) id = std::exchange(to_[index(id)], last);
    return last;
  }

 private:
  std::vector<ValueId> to_;
};

class IdentityRemover {
 public:
  explicit IdentityRemover(Draft& draft)
      : draft_(draft),
        graph_(draft.graph),
        aliases_(graph_.values.size()),
        captured_(graph_.values.size(), false) {
    for (const auto& node : graph_.nodes) {
      for (const auto id : node.captures) captured_[index(id)] = true;
    }
  }

  void run() {
    std::vector<bool> keep(graph_.nodes.size(), true);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto& node = graph_.nodes[i];
      const bool identity = node.op == "Identity" && node.domain.empty() &&
                            node.inputs.size() == 1 && node.outputs.size() == 1 &&
                            node.inputs[0] != ValueId::kNone && node.outputs[0] != ValueId::kNone;
      if (identity) keep[i] = !remove(node);
    }
    for (auto& node : graph_.nodes) {
      for (auto& id : node.inputs) id = aliases_.of(id);
      for (auto& id : node.outputs) id = aliases_.of(id);
    }
    compact(draft_, keep);
  }

 private:
  bool remove(const Node& node) {
    const auto source = aliases_.of(node.inputs[0]);
    const auto copy = node.outputs[0];
    auto& from = graph_.values[index(source)];
    auto& to = graph_.values[index(copy)];
    const bool copy_is_named = to.is_output || captured_[index(copy)];
    const bool source_is_named = from.is_output || captured_[index(source)];
    if (!copy_is_named) {
      if (from.type.kind == Type::Kind::kUnknown) from.type = to.type;
      aliases_.set(copy, source);
      draft_.remove(to.name, "removed, an Identity of", from.name);
    } else if (from.constant && !from.is_parameter && !from.is_input) {
      to.constant = from.constant;
      to.type = from.type;
    } else if (from.producer && !source_is_named) {
      if (to.type.kind == Type::Kind::kUnknown) to.type = from.type;
      aliases_.set(source, copy);
      draft_.remove(from.name, "removed, the same as", to.name);
    } else {
      return false;
    }
    draft_.remove(node.name, "removed, an Identity that gave", to.name);
    return true;
  }

  Draft& draft_;
  Graph& graph_;
  Aliases aliases_;
  std::vector<bool> captured_;
};

}  // namespace

Result<Tensor> constant_of(const Attribute& attribute) {
  if (const auto* i = std::get_if<std::int64_t>(&attribute.value)) return scalar_of(*i);
  if (const auto* f = std::get_if<float>(&attribute.value)) return scalar_of(*f);
  if (const auto* s = std::get_if<std::string>(&attribute.value)) {
    return Tensor::strings({}, {*s});
  }
  if (const auto* ints = std::get_if<std::vector<std::int64_t>>(&attribute.value)) {
    return list_of(DType::kI64, *ints);
  }
  if (const auto* floats = std::get_if<std::vector<float>>(&attribute.value)) {
    return list_of(DType::kF32, *floats);
  }
  if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute.value)) {
    return Tensor::strings({static_cast<std::int64_t>(texts->size())}, *texts);
  }
  onnx::AttributeProto proto;
  PENSTOCK_CHECK_OK(fill(attribute, proto));
  if (proto.has_sparse_tensor()) return tensor_of(proto.sparse_tensor());
  return tensor_of(proto.t());
}

Status make_constants(Draft& draft) {
  auto& graph = draft.graph;
  std::vector<bool> keep(graph.nodes.size(), true);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& node = graph.nodes[i];
    if (node.op != "Constant" || !node.domain.empty() || node.outputs.size() != 1 ||
        node.outputs[0] == ValueId::kNone) {
      continue;
    }
    auto& value = graph.values[index(node.outputs[0])];
    if (!value.constant) {
      if (node.attributes.size() != 1) {
        return invalid_argument("expected one attribute of a Constant, found ",
                                node.attributes.size())
            .within(place_of_node(node.name, node.op, value.name));
      }
      auto tensor = constant_of(node.attributes[0]);
      if (!tensor) return std::move(tensor).error().within({Where::kConstant, value.name});
      value.constant = *std::move(tensor);
    }
    value.type = value.constant->type();
    keep[i] = false;
    draft.remove(node.name, "removed, a Constant that is now the constant", value.name);
  }
  compact(draft, keep);
  return {};
}

void remove_identities(Draft& draft) {
  IdentityRemover(draft).run();
}

void remove_dead(Draft& draft) {
  auto& graph = draft.graph;
  std::vector<bool> needed(graph.values.size(), false);
  std::vector<bool> keep(graph.nodes.size(), false);
  for (const auto id : graph.outputs) needed[index(id)] = true;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const auto& node = graph.nodes[i];
    keep[i] = std::ranges::any_of(
        node.outputs, [&](ValueId id) { return id != ValueId::kNone && needed[index(id)]; });
    if (!keep[i]) {
      draft.remove(node.name, "removed, no output of the model depends on it");
      for (const auto id : node.outputs) {
        if (id == ValueId::kNone) continue;
        draft.remove(graph.value(id).name, "removed, no output of the model depends on it");
      }
      continue;
    }
    for (const auto id : node.inputs) {
      if (id != ValueId::kNone) needed[index(id)] = true;
    }
    for (const auto id : node.captures) needed[index(id)] = true;
  }
  compact(draft, keep);
}

}  // namespace penstock::graph
