// Joins other nodes to the group of a neighbour, sorts the groups, and describes a cycle.
#include "penstock/partition/groups.h"

#include <algorithm>

#include "penstock/partition/reads.h"

namespace penstock::partition {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

/// Which group depends on which, and by which tensor first.
class Quotient {
 public:
  explicit Quotient(std::size_t size) : size_(size), reaches_(size * size, false) {}

  [[nodiscard]] bool reaches(std::size_t from, std::size_t to) const {
    return reaches_[from * size_ + to];
  }

  /// Keeps `reaches` closed: whatever reaches `from` now reaches what `to` reaches.
  void add(std::size_t from, std::size_t to) {
    if (from == to || reaches(from, to)) return;
    for (std::size_t a = 0; a < size_; ++a) {
      if (a != from && !reaches(a, from)) continue;
      for (std::size_t b = 0; b < size_; ++b) {
        if (b == to || reaches(to, b)) reaches_[a * size_ + b] = true;
      }
    }
  }

 private:
  std::size_t size_;
  std::vector<bool> reaches_;
};

/// What the given nodes alone say: paths between groups, through nodes that are not given too.
Quotient quotient_of_given(const Graph& graph, const Groups& groups) {
  const auto count = groups.labels.size();
  Quotient quotient(count);
  std::vector<std::vector<bool>> before(graph.nodes.size(), std::vector<bool>(count, false));
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    auto& mine = before[i];
    for_each_producer(graph, static_cast<NodeId>(i), [&](NodeId producer, ValueId) {
      const auto& theirs = before[index(producer)];
      for (std::size_t g = 0; g < count; ++g) mine[g] = mine[g] || theirs[g];
    });
    if (groups.of_node[i] < 0) continue;
    const auto own = static_cast<std::size_t>(groups.of_node[i]);
    for (std::size_t g = 0; g < count; ++g) {
      if (mine[g]) quotient.add(g, own);
    }
    mine[own] = true;
  }
  return quotient;
}

/// The producers' group that comes last, or -1 where no producer has one.
int last_producer_group(const Graph& graph, const Groups& groups, const Quotient& quotient,
                        NodeId node) {
  std::vector<NodeId> producers;
  for_each_producer(graph, node, [&](NodeId producer, ValueId) { producers.push_back(producer); });
  std::ranges::sort(producers);
  int best = -1;
  for (const auto producer : producers) {
    const int group = groups.of_node[index(producer)];
    if (group < 0 || group == best) continue;
    const bool earlier = best >= 0 && quotient.reaches(static_cast<std::size_t>(group),
                                                       static_cast<std::size_t>(best));
    if (!earlier) best = group;
  }
  return best;
}

void join_rest(const Graph& graph, Groups& groups) {
  auto quotient = quotient_of_given(graph, groups);
  const auto count = graph.nodes.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (groups.of_node[i] >= 0) continue;
    const auto node = static_cast<NodeId>(i);
    const int group = last_producer_group(graph, groups, quotient, node);
    groups.of_node[i] = group;
    if (group < 0) continue;
    for_each_producer(graph, node, [&](NodeId producer, ValueId) {
      const int from = groups.of_node[index(producer)];
      if (from >= 0) quotient.add(static_cast<std::size_t>(from), static_cast<std::size_t>(group));
    });
  }
  // Backwards, so that a chain up to a group's first node joins it as a whole.
  for (std::size_t i = count; i-- > 0;) {
    if (groups.of_node[i] >= 0) continue;
    auto first = static_cast<NodeId>(count);
    for (const auto made : graph.nodes[i].outputs) {
      if (made == ValueId::kNone) continue;
      for (const auto consumer : graph.value(made).consumers) {
        if (groups.of_node[index(consumer)] >= 0) first = std::min(first, consumer);
      }
    }
    groups.of_node[i] = index(first) < count ? groups.of_node[index(first)] : 0;
  }
}

struct Link {
  bool there = false;
  NodeId producer{}, consumer{};
  ValueId tensor = ValueId::kNone;
};
using Links = std::vector<std::vector<Link>>;  // [from][to]

Links links_between(const Graph& graph, const Groups& groups) {
  const auto count = groups.labels.size();
  Links links(count, std::vector<Link>(count));
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto node = static_cast<NodeId>(i);
    for_each_producer(graph, node, [&](NodeId producer, ValueId tensor) {
      const auto from = static_cast<std::size_t>(groups.of_node[index(producer)]);
      const auto to = static_cast<std::size_t>(groups.of_node[i]);
      if (from != to && !links[from][to].there) links[from][to] = {true, producer, node, tensor};
    });
  }
  return links;
}

/// Walks backwards among groups that all wait for one another until one comes again.
Error cycle_error(const Graph& graph, const Groups& groups, const Links& links,
                  const std::vector<bool>& placed) {
  const auto count = links.size();
  std::vector<std::size_t> path{
      static_cast<std::size_t>(std::ranges::find(placed, false) - placed.begin())};
  std::vector<std::size_t>::iterator again;
  for (;;) {
    std::size_t before = 0;
    while (before < count && (placed[before] || !links[before][path.back()].there)) ++before;
    again = std::ranges::find(path, before);
    if (again != path.end()) break;
    path.push_back(before);
  }
  std::vector<std::size_t> cycle(again, path.end());
  std::ranges::reverse(cycle);
  std::ranges::rotate(cycle, std::ranges::min_element(cycle));
  std::vector<std::string> steps;
  for (std::size_t k = 0; k < cycle.size(); ++k) {
    const auto from = cycle[k], to = cycle[(k + 1) % cycle.size()];
    const auto& link = links[from][to];
    steps.push_back(concat("node '", graph.node(link.consumer).name, "' of ", groups.labels[to],
                           " reads '", graph.value(link.tensor).name, "' of ",
                           groups.labels[from]));
  }
  return invalid_argument("stages would wait for each other in a cycle: ", join(steps, ", and "),
                          "; give the nodes of one stage so that no path leaves it and comes back");
}

Result<std::vector<std::size_t>> topological_order(const Graph& graph, const Groups& groups) {
  const auto links = links_between(graph, groups);
  const auto count = links.size();
  std::vector<bool> placed(count, false);
  std::vector<std::size_t> order;
  while (order.size() < count) {
    std::size_t next = 0;
    const auto blocked = [&](std::size_t group) {
      for (std::size_t from = 0; from < count; ++from) {
        if (!placed[from] && links[from][group].there) return true;
      }
      return false;
    };
    while (next < count && (placed[next] || blocked(next))) ++next;
    if (next == count) return cycle_error(graph, groups, links, placed);
    placed[next] = true;
    order.push_back(next);
  }
  return order;
}

}  // namespace

Result<std::vector<std::vector<NodeId>>> order_groups(const Graph& graph, Groups groups) {
  join_rest(graph, groups);
  PENSTOCK_TRY(const auto order, topological_order(graph, groups));
  std::vector<std::vector<NodeId>> of_group(order.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    of_group[static_cast<std::size_t>(groups.of_node[i])].push_back(static_cast<NodeId>(i));
  }
  std::vector<std::vector<NodeId>> stages;
  stages.reserve(order.size());
  for (const auto group : order) stages.push_back(std::move(of_group[group]));
  return stages;
}

}  // namespace penstock::partition
