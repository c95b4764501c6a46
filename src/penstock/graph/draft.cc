// Links values and nodes, renumbers what is left after a removal, and gives each node a name.
#include "penstock/graph/draft.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "penstock/base/error.h"
#include "penstock/graph/free_name.h"

namespace penstock::graph {
namespace {

template <typename Visit>
void for_each_mention(Node& node, Visit visit) {
  for (auto* list : {&node.inputs, &node.outputs, &node.captures}) {
    for (auto& id : *list) {
      if (id != ValueId::kNone) visit(id);
    }
  }
}

template <typename Visit>
void for_each_boundary(Graph& graph, Visit visit) {
  for (auto* list : {&graph.inputs, &graph.outputs, &graph.parameters}) {
    for (auto& id : *list) visit(id);
  }
}

void drop_nodes(Graph& graph, const std::vector<bool>& keep) {
  std::size_t to = 0;
  for (std::size_t from = 0; from < graph.nodes.size(); ++from) {
    if (!keep[from]) continue;
    if (to != from) {
      graph.nodes[to] = std::move(graph.nodes[from]);
      graph.pipeline_stages[to] = graph.pipeline_stages[from];
    }
    ++to;
  }
  graph.nodes.resize(to);
  graph.pipeline_stages.resize(to);
}

void drop_values(Draft& draft) {
  auto& graph = draft.graph;
  std::vector<bool> mentioned(graph.values.size(), false);
  const auto mention = [&](ValueId id) { mentioned[index(id)] = true; };
  for (auto& node : graph.nodes) for_each_mention(node, mention);
  for_each_boundary(graph, mention);
  std::vector<ValueId> renumbered(graph.values.size(), ValueId::kNone);
  std::size_t to = 0;
  for (std::size_t from = 0; from < graph.values.size(); ++from) {
    if (!mentioned[from]) {
      if (graph.values[from].constant) {
        draft.remove(graph.values[from].name, "removed, nothing reads it");
      }
      continue;
    }
    renumbered[from] = static_cast<ValueId>(to);
    if (to != from) graph.values[to] = std::move(graph.values[from]);
    ++to;
  }
  graph.values.resize(to);
  const auto renumber = [&](ValueId& id) { id = renumbered[index(id)]; };
  for (auto& node : graph.nodes) for_each_mention(node, renumber);
  for_each_boundary(graph, renumber);
}

}  // namespace

void link(Graph& graph) {
  for (auto& value : graph.values) {
    value.producer.reset();
    value.consumers.clear();
    value.is_output = false;
  }
  for (const auto id : graph.outputs) graph.values[index(id)].is_output = true;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto node = static_cast<NodeId>(i);
    const auto read = [&](ValueId id) {
      if (id == ValueId::kNone) return;
      auto& consumers = graph.values[index(id)].consumers;
      if (consumers.empty() || consumers.back() != node) consumers.push_back(node);
    };
    for (const auto id : graph.nodes[i].inputs) read(id);
    for (const auto id : graph.nodes[i].captures) read(id);
    for (const auto id : graph.nodes[i].outputs) {
      if (id != ValueId::kNone) graph.values[index(id)].producer = node;
    }
  }
}

void compact(Draft& draft, const std::vector<bool>& keep) {
  drop_nodes(draft.graph, keep);
  drop_values(draft);
  link(draft.graph);
}

void explain_removals(Draft& draft) {
  std::unordered_set<std::string> alive;
  for (const auto& node : draft.graph.nodes) alive.insert(node.name);
  for (const auto& value : draft.graph.values) alive.insert(value.name);
  for (const auto& [name, removal] : draft.removals) {
    if (alive.contains(name)) continue;
    const auto* last = &removal;
    // A chain is no longer than the number of removals, also if names go round in a circle.
    for (std::size_t i = 0; i < draft.removals.size(); ++i) {
      const auto next = draft.removals.find(last->by);
      if (last->by.empty() || alive.contains(last->by) || next == draft.removals.end()) break;
      last = &next->second;
    }
    draft.graph.removed[name] =
        last->by.empty() ? last->how : concat(last->how, " '", last->by, "'");
  }
}

void name_nodes(Graph& graph) {
  std::unordered_set<std::string> taken;
  for (const auto& node : graph.nodes) taken.insert(node.name);
  std::unordered_set<std::string> used;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    auto& name = graph.nodes[i].name;
    if (!name.empty() && used.insert(name).second) continue;
    const std::string base = concat(name.empty() ? graph.nodes[i].op : name, "_", i);
    name = free_name(base, [&](const auto& free) { return taken.insert(free).second; });
    used.insert(name);
  }
}

}  // namespace penstock::graph
