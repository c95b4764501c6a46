// Walks back from the conditions of Ifs and Loops; the inputs found must all be single numbers.
#include "penstock/graph/switches.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace penstock::graph {
namespace {

bool is_one_element(const Type& type) {
  return type.kind == Type::Kind::kTensor && type.ranked &&
         std::ranges::all_of(type.dims,
                             [](const Dim& dim) { return dim.fixed() && dim.size == 1; });
}

/// An integer or a bool; a float only where one value of it is asked for, as others are data.
bool is_switch(const Type& type, bool is_compared) {
  if (!is_one_element(type)) return false;
  switch (type.dtype) {
    case DType::kBool:
    case DType::kI8:
    case DType::kU8:
    case DType::kI16:
    case DType::kU16:
    case DType::kI32:
    case DType::kU32:
    case DType::kI64:
    case DType::kU64:
      return true;
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
    case DType::kF64:
      return is_compared;
    default:
      return false;
  }
}

/// The inputs that `from` hangs on, each with whether an Equal stands between.
std::unordered_map<std::size_t, bool> inputs_behind(const Graph& graph, ValueId from) {
  struct Visit {
    bool at_all = false, compared = false;
  };
  std::unordered_map<std::size_t, Visit> seen;
  std::unordered_map<std::size_t, bool> inputs;
  std::vector<std::pair<ValueId, bool>> open = {{from, false}};
  while (!open.empty()) {
    const auto [id, is_compared] = open.back();
    open.pop_back();
    if (id == ValueId::kNone) continue;
    auto& before = seen[index(id)];
    if (before.compared || (before.at_all && !is_compared)) continue;
    before = {true, is_compared};
    const auto& value = graph.value(id);
    if (value.is_input) inputs[index(id)] = is_compared;
    if (!value.producer) continue;
    const auto& node = graph.node(*value.producer);
    const bool compares = is_compared || (node.domain.empty() && node.op == "Equal");
    for (const auto input : node.inputs) open.emplace_back(input, compares);
    for (const auto captured : node.captures) open.emplace_back(captured, compares);
  }
  return inputs;
}

/// Of an If its condition; of a Loop the count and the first condition.
std::size_t conditions_of(const Node& node) {
  if (!node.domain.empty()) return 0;
  return node.op == "If" ? 1 : node.op == "Loop" ? 2 : 0;
}

}  // namespace

std::vector<ValueId> switches_of(const Graph& graph) {
  std::unordered_set<std::size_t> found;
  for (const auto& node : graph.nodes) {
    for (std::size_t i = 0; i < std::min(conditions_of(node), node.inputs.size()); ++i) {
      const auto inputs = inputs_behind(graph, node.inputs[i]);
      const bool all_switch = std::ranges::all_of(inputs, [&](const auto& input) {
        return is_switch(graph.values[input.first].type, input.second);
      });
      if (!all_switch) continue;
      for (const auto& input : inputs) found.insert(input.first);
    }
  }
  std::vector<ValueId> switches;
  std::ranges::copy_if(graph.inputs, std::back_inserter(switches),
                       [&](ValueId id) { return found.contains(index(id)); });
  return switches;
}

}  // namespace penstock::graph
