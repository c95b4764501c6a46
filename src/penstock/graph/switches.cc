// Walks back from the conditions of Ifs and Loops; the inputs found must all be single integers.
#include "penstock/graph/switches.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <unordered_set>

namespace penstock::graph {
namespace {

bool is_one_number(const Type& type) {
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
      break;
    default:
      return false;
  }
  return type.kind == Type::Kind::kTensor && type.ranked &&
         std::ranges::all_of(type.dims,
                             [](const Dim& dim) { return dim.fixed() && dim.size == 1; });
}

/// The inputs that `from` hangs on.
std::unordered_set<std::size_t> inputs_behind(const Graph& graph, ValueId from) {
  std::unordered_set<std::size_t> seen, inputs;
  std::vector<ValueId> open = {from};
  while (!open.empty()) {
    const auto id = open.back();
    open.pop_back();
    if (id == ValueId::kNone || !seen.insert(index(id)).second) continue;
    const auto& value = graph.value(id);
    if (value.is_input) inputs.insert(index(id));
    if (!value.producer) continue;
    const auto& node = graph.node(*value.producer);
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
    open.insert(open.end(), node.captures.begin(), node.captures.end());
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
      const bool all_switch = std::ranges::all_of(
          inputs, [&](std::size_t id) { return is_one_number(graph.values[id].type); });
      if (all_switch) found.insert(inputs.begin(), inputs.end());
    }
  }
  std::vector<ValueId> switches;
  std::ranges::copy_if(graph.inputs, std::back_inserter(switches),
                       [&](ValueId id) { return found.contains(index(id)); });
  return switches;
}

}  // namespace penstock::graph
