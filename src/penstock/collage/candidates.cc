// Candidates as sets of units: runs, connected convex unions, and the sets of other rules that fit.
#include "penstock/collage/candidates.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "penstock/collage/yields.h"

namespace penstock::collage {
namespace {

using graph::Graph;
using graph::NodeId;

constexpr std::size_t kMostNodes = 65'536;  // The wiring takes a quarter of its square in bytes.
constexpr std::size_t kMostShown = 6;       // Operators in a label.

Wiring wiring_of(const Graph& graph, const Units& units) {
  std::vector<Wiring::Edge> edges;
  for (const auto& value : graph.values) {
    if (!value.producer) continue;
    const auto from = static_cast<std::size_t>(units.of_node[index(*value.producer)]);
    for (const auto consumer : value.consumers) {
      const auto to = static_cast<std::size_t>(units.of_node[index(consumer)]);
      if (from != to) edges.emplace_back(from, to);
    }
  }
  return {units.size(), edges};
}

/// Whether those of the sets that lie within the nodes hold all of them.
bool filled(const NodeSet& nodes, const std::vector<NodeSet>& sets) {
  NodeSet rest = nodes;
  for (const auto& set : sets) {
    if (set.is_subset_of(nodes)) rest -= set;
  }
  return rest.empty();
}

bool given(const Yields& yields, const Rule& rule, const NodeSet& nodes) {
  switch (rule.kind) {
    case Rule::Kind::kUnion:
      return std::ranges::any_of(rule.parts,
                                 [&](const Rule& part) { return given(yields, part, nodes); });
    case Rule::Kind::kOnlyValid:
      return yields.valid(rule, nodes) && given(yields, rule.parts.front(), nodes);
    case Rule::Kind::kHost:
      return given(yields, rule.parts.front(), nodes);
    case Rule::Kind::kCombine:
      if (rule.joins.empty()) return filled(nodes, yields.beginnings(rule));
      [[fallthrough]];
    default: {
      const Limits limits;
      const auto sets =
          yields.of(rule, {limits.max_nodes, SIZE_MAX, limits.beam, limits.max_candidates});
      return std::ranges::find(sets, nodes, &Found::nodes) != sets.end();
    }
  }
}

/// Candidates made of whole units.
class InUnits {
 public:
  InUnits(const Graph& graph, const Units& units, const Limits& limits)
      : graph_(&graph),
        units_(&units),
        limits_(&limits),
        node_wiring_(Wiring::of(graph)),
        unit_wiring_(wiring_of(graph, units)),
        yields_(graph, node_wiring_),
        single_(units.size() == graph.nodes.size()) {}

  void find(const Rule& rule) { find(rule, {}, false); }
  void find_whole(const Rule& rule);
  std::vector<Candidate> finish(const std::string& backend);

 private:
  using Checks = std::vector<const Rule*>;  // The kOnlyValid around a rule.

  void find(const Rule& rule, const Checks& checks, bool host);
  void find_regions(const Rule& rule, const Checks& checks, bool host);
  void find_sets(const Rule& rule, const Checks& checks, bool host);
  void add(NodeSet units, bool host) {
    auto& entry = found_[std::move(units)];
    entry = entry || host;
  }
  [[nodiscard]] NodeSet nodes_of(const NodeSet& units) const;
  [[nodiscard]] bool valid(const Checks& checks, const NodeSet& nodes) const {
    return std::ranges::all_of(checks,
                               [&](const Rule* check) { return yields_.valid(*check, nodes); });
  }

  const Graph* graph_;
  const Units* units_;
  const Limits* limits_;
  Wiring node_wiring_, unit_wiring_;
  Yields yields_;
  bool single_;  // Each unit is a node.
  std::map<NodeSet, bool, NodeSet::Before> found_;
};

NodeSet InUnits::nodes_of(const NodeSet& units) const {
  NodeSet nodes = node_wiring_.none();
  units.each([&](std::size_t unit) {
    for (const auto node : units_->nodes[unit]) nodes.add(index(node));
  });
  return nodes;
}

void InUnits::find(const Rule& rule, const Checks& checks, bool host) {
  switch (rule.kind) {
    case Rule::Kind::kUnion:
      for (const auto& part : rule.parts) find(part, checks, host);
      return;
    case Rule::Kind::kOnlyValid: {
      auto more = checks;
      more.push_back(&rule);
      return single_ ? find_sets(rule, checks, host) : find(rule.parts.front(), more, host);
    }
    case Rule::Kind::kHost:
      return find(rule.parts.front(), checks, true);
    case Rule::Kind::kCombine:
      return single_ || !rule.joins.empty() ? find_sets(rule, checks, host)
                                            : find_regions(rule, checks, host);
    default:
      return find_sets(rule, checks, host);
  }
}

/// Runs of consecutive units that the rule can fill, and connected convex unions of them.
void InUnits::find_regions(const Rule& rule, const Checks& checks, bool host) {
  const auto beginnings = yields_.beginnings(rule);
  NodeSet touched = node_wiring_.none();
  for (const auto& begun : beginnings) touched |= begun;
  std::vector<NodeSet> possible, sets;
  for (std::size_t i = 0; i < units_->size(); ++i) {
    NodeSet run = unit_wiring_.none();
    for (std::size_t j = i; j < units_->size(); ++j) {
      run.add(j);
      if (!nodes_of(run).is_subset_of(touched)) break;
      if (j == i) possible.push_back(run);
      sets.push_back(run);
    }
  }
  const ClosureLimits limits{SIZE_MAX, SIZE_MAX, limits_->beam, limits_->max_candidates};
  for (auto& set : closure(unit_wiring_, possible, {}, limits)) {
    sets.push_back(std::move(set));
  }
  for (auto& set : sets) {
    const auto nodes = nodes_of(set);
    if (filled(nodes, beginnings) && valid(checks, nodes)) add(std::move(set), host);
  }
}

/// What the rule yields node by node, where it is made of whole units.
void InUnits::find_sets(const Rule& rule, const Checks& checks, bool host) {
  ClosureLimits limits{limits_->max_nodes, SIZE_MAX, limits_->beam, limits_->max_candidates};
  for (auto& one : yields_.of(rule, limits)) {
    NodeSet units = unit_wiring_.none();
    one.nodes.each(
        [&](std::size_t node) { units.add(static_cast<std::size_t>(units_->of_node[node])); });
    if (nodes_of(units) == one.nodes && valid(checks, one.nodes)) {
      add(std::move(units), host || one.host);
    }
  }
}

/// Where units are nodes, what is connected is found. A network need not be, as where an output is
/// an input that passes through.
void InUnits::find_whole(const Rule& rule) {
  NodeSet all = unit_wiring_.none();
  for (std::size_t unit = 0; unit < units_->size(); ++unit) all.add(unit);
  if (!all.empty() && given(yields_, rule, nodes_of(all))) add(std::move(all), false);
}

std::vector<Candidate> InUnits::finish(const std::string& backend) {
  std::vector<std::pair<NodeSet, bool>> list(found_.begin(), found_.end());
  const auto size = [](const auto& entry) { return entry.first.count(); };
  std::ranges::stable_sort(list, {}, size);
  if (single_ && list.size() > limits_->max_candidates) {
    const auto singles = std::ranges::upper_bound(list, std::size_t{1}, {}, size) - list.begin();
    list.resize(std::max(limits_->max_candidates, static_cast<std::size_t>(singles)));
  }
  std::ranges::stable_sort(list, {}, [&](const auto& entry) { return entry.first.first(); });
  std::vector<Candidate> candidates;
  for (auto& [units, host] : list) {
    Candidate candidate{backend, {}, units, {}, host};
    nodes_of(units).each(
        [&](std::size_t node) { candidate.nodes.push_back(static_cast<NodeId>(node)); });
    candidate.label = label_of(*graph_, candidate.nodes);
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

Status check_limits(const Graph& graph, const std::string& backend, const Limits& limits) {
  if (limits.max_nodes == 0 || limits.beam == 0 || limits.max_candidates == 0) {
    return invalid_argument("limits of candidates: expected numbers above 0");
  }
  if (graph.nodes.size() > kMostNodes) {
    return make_error(Code::kResourceExhausted, "candidates of backend '", backend,
                      "': the graph has ", graph.nodes.size(), " nodes, more than ", kMostNodes);
  }
  return {};
}

}  // namespace

std::string label_of(const Graph& graph, const std::vector<NodeId>& nodes) {
  std::vector<std::string> shown;
  for (const auto node : nodes) {
    if (shown.size() == kMostShown) break;
    shown.push_back(operator_of(graph.node(node)));
  }
  const auto label = join(shown, "+");
  return nodes.size() <= kMostShown ? label : concat(label, "+... (", nodes.size(), " nodes)");
}

bool yields(const Graph& graph, const Rule& rule, const std::vector<NodeId>& nodes) {
  const auto wiring = Wiring::of(graph);
  auto set = wiring.none();
  for (const auto node : nodes) set.add(index(node));
  return given(Yields(graph, wiring), rule, set);
}

NodeSet supported_nodes(const Graph& graph, const Rule& rule) {
  const auto wiring = Wiring::of(graph);
  auto nodes = wiring.none();
  for (const auto& begun : Yields(graph, wiring).beginnings(rule)) nodes |= begun;
  return nodes;
}

Result<std::vector<Candidate>> candidates(const Graph& graph, const std::string& backend,
                                          const Rule& rule, const Limits& limits) {
  PENSTOCK_CHECK_OK(check_limits(graph, backend, limits));
  const auto units = each_node(graph);
  InUnits finder(graph, units, limits);
  finder.find(rule);
  return finder.finish(backend);
}

Result<std::vector<Candidate>> candidates(const Graph& graph, const Units& units,
                                          const std::string& backend, const Rule& rule,
                                          const Limits& limits) {
  PENSTOCK_CHECK_OK(check_limits(graph, backend, limits));
  InUnits finder(graph, units, limits);
  finder.find(rule);
  finder.find_whole(rule);
  return finder.finish(backend);
}

}  // namespace penstock::collage
