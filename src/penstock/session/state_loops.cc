// Follows values from the readers of each state to its writer, and joins loops that share nodes.
#include "penstock/session/state_loops.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include "penstock/base/option_name.h"
#include "penstock/graph/containers.h"

namespace penstock {
namespace {

using graph::NodeId;

std::optional<NodeId> writer_of(const graph::Graph& graph, const std::string& name) {
  const auto value = std::ranges::find(graph.values, name, &graph::Value::name);
  return value == graph.values.end() ? std::nullopt : value->producer;
}

std::vector<NodeId> readers_of(const graph::Graph& graph, const std::string& name) {
  const auto value = std::ranges::find(graph.values, name, &graph::Value::name);
  return value == graph.values.end() ? std::vector<NodeId>() : value->consumers;
}

std::vector<NodeId> consumers_of(const graph::Graph& graph, NodeId node) {
  std::vector<NodeId> nodes;
  for (const auto id : graph.nodes[graph::index(node)].outputs) {
    if (id == graph::ValueId::kNone) continue;
    const auto& readers = graph.value(id).consumers;
    nodes.insert(nodes.end(), readers.begin(), readers.end());
  }
  return nodes;
}

std::vector<NodeId> producers_of(const graph::Graph& graph, NodeId node) {
  std::vector<NodeId> nodes;
  const auto& of = graph.nodes[graph::index(node)];
  for (const auto* list : {&of.inputs, &of.captures}) {
    for (const auto id : *list) {
      if (id != graph::ValueId::kNone && graph.value(id).producer) {
        nodes.push_back(*graph.value(id).producer);
      }
    }
  }
  return nodes;
}

/// Whether each node can be reached from these by `next`.
template <typename Next>
std::vector<bool> marked(const graph::Graph& graph, std::vector<NodeId> from, const Next& next) {
  std::vector<bool> marks(graph.nodes.size());
  while (!from.empty()) {
    const auto node = from.back();
    from.pop_back();
    if (marks[graph::index(node)]) continue;
    marks[graph::index(node)] = true;
    for (const auto other : next(graph, node)) from.push_back(other);
  }
  return marks;
}

const graph::Value* find_among(const graph::Graph& graph, const std::vector<graph::ValueId>& ids,
                               const std::string& name) {
  const auto found =
      std::ranges::find_if(ids, [&](graph::ValueId id) { return graph.value(id).name == name; });
  return found == ids.end() ? nullptr : &graph.value(*found);
}

std::vector<std::string> list_of(const graph::Graph& graph,
                                 const std::vector<graph::ValueId>& ids) {
  std::vector<std::string> names;
  for (const auto id : ids) names.push_back(graph.value(id).name);
  return names;
}

std::string names_in(const graph::Graph& graph, const std::vector<graph::ValueId>& ids) {
  return join(ids, ", ", [&](graph::ValueId id) { return concat("'", graph.value(id).name, "'"); });
}

std::string example_of_states() {
  return in_words_of_caller("--state OUTPUT=INPUT", "states={'OUTPUT': 'INPUT'}");
}

}  // namespace

std::vector<std::vector<NodeId>> state_loops(const graph::Graph& graph,
                                             const std::vector<plan::StateEdge>& states) {
  // Nodes that are on a way from one that reads a state to the one that writes it.
  std::vector<std::vector<NodeId>> loops;
  for (const auto& state : states) {
    const auto writes = writer_of(graph, state.from);
    if (!writes) continue;
    const auto after = marked(graph, readers_of(graph, state.to), consumers_of);
    const auto before = marked(graph, {*writes}, producers_of);
    auto& loop = loops.emplace_back();
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const auto node = static_cast<NodeId>(i);
      if ((after[i] && before[i]) || node == *writes) loop.push_back(node);
    }
  }
  // Loops that share a node wait for one another: they are one.
  for (std::size_t i = 0; i < loops.size(); ++i) {
    for (std::size_t j = i + 1; j < loops.size();) {
      if (std::ranges::find_first_of(loops[i], loops[j]) == loops[i].end()) {
        ++j;
        continue;
      }
      loops[i].insert(loops[i].end(), loops[j].begin(), loops[j].end());
      std::ranges::sort(loops[i]);
      loops[i].erase(std::ranges::unique(loops[i]).begin(), loops[i].end());
      loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(j));
      j = i + 1;
    }
  }
  return loops;
}

std::string why_no_state(const Type& type) {
  const auto container = graph::container_of(type);
  if (!container) return {};
  const bool may_hold_one = container->kind == graph::Container::Kind::kOptional;
  if (may_hold_one && !graph::container_of(container->inside)) return {};
  return concat("expected a tensor, found ", graph::type_text(type),
                ": only tensors can be states; give the value with each frame, or let the network "
                "keep one tensor in its place");
}

Status check_states_are_tensors(const graph::Graph& graph,
                                const std::vector<plan::StateEdge>& states) {
  for (const auto& state : states) {
    for (const auto* end : {find_among(graph, graph.outputs, state.from),
                            find_among(graph, graph.inputs, state.to)}) {
      const auto refused = end == nullptr ? std::string() : why_no_state(end->type);
      if (refused.empty()) continue;
      return invalid_argument("state '", state.from, "' -> '", state.to, "': ", refused, " (",
                              OptionName::kStates, ")");
    }
  }
  return {};
}

Status check_states(const graph::Graph& graph, const std::vector<plan::StateEdge>& states) {
  PENSTOCK_CHECK_OK(check_states_are_tensors(graph, states));
  for (const auto& state : states) {
    const auto place = concat("state '", state.from, "' -> '", state.to, "'");
    auto misread =
        plan::misread_state(state, list_of(graph, graph.inputs), list_of(graph, graph.outputs));
    if (misread) return (*std::move(misread)).within(place);
    const auto* from = find_among(graph, graph.outputs, state.from);
    if (from == nullptr) {
      return not_found(place, ": no output '", state.from, "'; the network's outputs are ",
                       names_in(graph, graph.outputs), " (", example_of_states(), ")");
    }
    const auto* to = find_among(graph, graph.inputs, state.to);
    if (to == nullptr) {
      return not_found(place, ": no input '", state.to, "'; the network's inputs are ",
                       names_in(graph, graph.inputs), " (", example_of_states(), ")");
    }
    if (!plan::agree(from->type, to->type)) {
      return invalid_argument(place, ": writes ", from->type, ", reads ", to->type,
                              "; expected one type and shape: choose other tensors (",
                              OptionName::kStates, ")");
    }
  }
  return {};
}

}  // namespace penstock
