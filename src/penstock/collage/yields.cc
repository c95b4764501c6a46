// Evaluates a rule by its kind: single nodes, chains, unions, closures, limits on validity, hosts.
#include "penstock/collage/yields.h"

#include <algorithm>
#include <unordered_map>

namespace penstock::collage {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

constexpr std::size_t kTriesPerSet = 8;  // Sets made for each that a limit on validity may leave.

bool in_chain(const Graph& graph, const Rule& link, NodeId node) {
  if (link.kind != Rule::Kind::kUnion) return takes(graph, link, node);
  return std::ranges::any_of(link.parts,
                             [&](const Rule& part) { return in_chain(graph, part, node); });
}

/// The one node that reads all that this one makes; empty where there is none, or another reader.
std::optional<NodeId> only_reader(const Graph& graph, NodeId node) {
  std::optional<NodeId> reader;
  for (const auto id : graph.node(node).outputs) {
    if (id == ValueId::kNone) continue;
    const auto& value = graph.value(id);
    if (value.is_output) return std::nullopt;
    for (const auto consumer : value.consumers) {
      if (reader.value_or(consumer) != consumer) return std::nullopt;
      reader = consumer;
    }
  }
  return reader;
}

/// Without combining, each rule as it is.
Rule plain(const Rule& rule) {
  if (rule.kind == Rule::Kind::kCombine || rule.kind == Rule::Kind::kOnlyValid) {
    return plain(rule.parts.front());
  }
  if (rule.kind == Rule::Kind::kChain) return rule;
  Rule copy = rule;
  for (auto& part : copy.parts) part = plain(part);
  return copy;
}

JoinSets sets_of(const Graph& graph, const Join& join) {
  JoinSets sets{NodeSet(graph.nodes.size()), NodeSet(graph.nodes.size())};
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto name = operator_of(graph.nodes[i]);
    if (std::ranges::find(join.from, name) != join.from.end()) sets.from.add(i);
    if (std::ranges::find(join.to, name) != join.to.end()) sets.to.add(i);
  }
  return sets;
}

std::vector<Found> without_repetition(std::vector<Found> found) {
  std::unordered_map<NodeSet, std::size_t, NodeSet::Hash> places;
  std::vector<Found> kept;
  for (auto& one : found) {
    const auto [at, added] = places.emplace(one.nodes, kept.size());
    if (added) {
      kept.push_back(std::move(one));
    } else {
      kept[at->second].host = kept[at->second].host || one.host;
    }
  }
  return kept;
}

}  // namespace

std::vector<Found> Yields::single(const Rule& rule) const {
  std::vector<Found> found;
  for (std::size_t i = 0; i < graph_->nodes.size(); ++i) {
    if (!takes(*graph_, rule, static_cast<NodeId>(i))) continue;
    found.push_back({wiring_->none(), false});
    found.back().nodes.add(i);
  }
  return found;
}

std::vector<Found> Yields::chains(const Rule& rule) const {
  std::vector<Found> found;
  for (std::size_t i = 0; i < graph_->nodes.size(); ++i) {
    Found chain{wiring_->none(), false};
    std::optional<NodeId> node = static_cast<NodeId>(i);
    std::size_t length = 0;
    for (; length < rule.parts.size() && node; ++length) {
      if (!in_chain(*graph_, rule.parts[length], *node)) break;
      chain.nodes.add(index(*node));
      if (length + 1 < rule.parts.size()) node = only_reader(*graph_, *node);
    }
    if (length == rule.parts.size()) found.push_back(std::move(chain));
  }
  return found;
}

std::vector<Found> Yields::combined(const Rule& rule, const ClosureLimits& limits) const {
  std::vector<NodeSet> base;
  for (auto& one : of(rule.parts.front(), limits)) base.push_back(std::move(one.nodes));
  std::vector<JoinSets> joins;
  joins.reserve(rule.joins.size());
  for (const auto& join : rule.joins) joins.push_back(sets_of(*graph_, join));
  std::vector<Found> found;
  for (auto& nodes : closure(*wiring_, base, joins, limits)) {
    found.push_back({std::move(nodes), false});
  }
  return found;
}

bool Yields::valid(const Rule& rule, const NodeSet& nodes) const {
  if (nodes.count() > rule.max_nodes) return false;
  if (rule.max_depth != Rule::kAny && wiring_->depth_of(nodes) > rule.max_depth) return false;
  if (rule.max_exits == Rule::kAny && rule.taps) return true;
  const auto boundary = boundary_of(*graph_, nodes);
  return boundary.exits <= rule.max_exits && (rule.taps || !boundary.taps);
}

std::vector<Found> Yields::of(const Rule& rule, const ClosureLimits& limits) const {
  std::vector<Found> found;
  switch (rule.kind) {
    case Rule::Kind::kAll:
    case Rule::Kind::kOps:
      return single(rule);
    case Rule::Kind::kChain:
      return chains(rule);
    case Rule::Kind::kCombine:
      return combined(rule, limits);
    case Rule::Kind::kUnion:
      for (const auto& part : rule.parts) {
        for (auto& one : of(part, limits)) found.push_back(std::move(one));
      }
      break;
    case Rule::Kind::kOnlyValid: {
      // Unions only grow in nodes and depth: larger ones lead to nothing valid.
      auto tighter = limits;
      tighter.max_members = std::min(limits.max_members, rule.max_nodes);
      tighter.max_depth = std::min(limits.max_depth, rule.max_depth);
      if (limits.max_sets < SIZE_MAX / kTriesPerSet) tighter.max_sets *= kTriesPerSet;
      for (auto& one : of(rule.parts.front(), tighter)) {
        if (valid(rule, one.nodes)) found.push_back(std::move(one));
      }
      break;
    }
    case Rule::Kind::kHost:
      for (auto& one : of(rule.parts.front(), limits)) {
        found.push_back({std::move(one.nodes), true});
      }
      break;
  }
  return without_repetition(std::move(found));
}

std::vector<NodeSet> Yields::beginnings(const Rule& rule) const {
  std::vector<NodeSet> sets;
  for (auto& one : of(plain(rule), {})) sets.push_back(std::move(one.nodes));
  return sets;
}

}  // namespace penstock::collage
