// A semi-naive fixed point by size: each set is joined with its neighbours among the earlier ones.
#include "penstock/collage/closure.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_set>

namespace penstock::collage {
namespace {

struct Grown {
  NodeSet nodes, before, after;  // With all that its members depend on, and that depends on them.
  NodeSet producers, readers;    // Direct ones outside.
  std::size_t size = 0;
  bool given = false;

  /// A path that leaves the set and comes back runs over a node that is before and after it.
  [[nodiscard]] bool convex() const { return ((before & after) - nodes).empty(); }
  [[nodiscard]] std::size_t neighbours() const { return (producers | readers).count(); }
};

class Closure {
 public:
  Closure(const Wiring& wiring, const std::vector<JoinSets>& joins, const ClosureLimits& limits)
      : wiring_(&wiring), joins_(&joins), limits_(&limits), with_(wiring.size()) {}

  std::vector<NodeSet> run(const std::vector<NodeSet>& base);

 private:
  [[nodiscard]] Grown grown(const NodeSet& nodes) const;
  [[nodiscard]] static Grown united(const Grown& a, const Grown& b);
  [[nodiscard]] bool joins(const Grown& a, const Grown& b) const;
  void keep_best(std::vector<Grown>& level) const;
  void combine(const Grown& set);
  void remember(const Grown& set);

  const Wiring* wiring_;
  const std::vector<JoinSets>* joins_;
  const ClosureLimits* limits_;
  std::map<std::size_t, std::vector<Grown>> levels_;  // Still to be looked at, by size.
  std::unordered_set<NodeSet, NodeSet::Hash> known_;
  std::vector<Grown> partners_;                 // Looked at: what later sets are joined with.
  std::vector<std::vector<std::size_t>> with_;  // The partners with a node.
  std::vector<std::size_t> met_;                // By partner: the last set that tried it.
  std::size_t turn_ = 0;
};

Grown Closure::grown(const NodeSet& nodes) const {
  Grown set{nodes, wiring_->none(), wiring_->none(), wiring_->none(), wiring_->none()};
  nodes.each([&](std::size_t node) {
    set.before |= wiring_->before(node);
    set.after |= wiring_->after(node);
    for (const auto from : wiring_->producers(node)) set.producers.add(from);
    for (const auto to : wiring_->readers(node)) set.readers.add(to);
  });
  set.producers -= nodes;
  set.readers -= nodes;
  set.size = nodes.count();
  return set;
}

Grown Closure::united(const Grown& a, const Grown& b) {
  Grown set{a.nodes | b.nodes, a.before | b.before, a.after | b.after, a.producers | b.producers,
            a.readers | b.readers};
  set.producers -= set.nodes;
  set.readers -= set.nodes;
  set.size = a.size + b.size;
  return set;
}

bool Closure::joins(const Grown& a, const Grown& b) const {
  if (a.nodes.intersects(b.nodes)) return false;
  if (joins_->empty()) return true;
  const auto allowed = [&](const Grown& from, const Grown& to) {
    return from.readers.intersects(to.nodes) &&
           std::ranges::any_of(*joins_, [&](const JoinSets& join) {
             return from.nodes.is_subset_of(join.from) && to.nodes.is_subset_of(join.to);
           });
  };
  return allowed(a, b) || allowed(b, a);
}

/// Of the sets of one size with the same first member, those with the fewest neighbours.
void Closure::keep_best(std::vector<Grown>& level) const {
  std::ranges::sort(level, NodeSet::Before(), &Grown::nodes);
  std::vector<std::tuple<std::size_t, bool, std::size_t, std::size_t>> order;
  order.reserve(level.size());
  for (const auto& set : level) {
    order.emplace_back(set.nodes.first(), !set.given, set.neighbours(), order.size());
  }
  std::ranges::sort(order);
  std::vector<Grown> best;
  std::size_t first = SIZE_MAX, kept = 0;
  for (const auto& [begin, grown, neighbours, i] : order) {
    if (std::exchange(first, begin) != begin) kept = 0;
    if (!grown || kept++ < limits_->beam) best.push_back(std::move(level[i]));
  }
  std::ranges::sort(best, NodeSet::Before(), &Grown::nodes);
  level = std::move(best);
}

void Closure::combine(const Grown& set) {
  ++turn_;
  (set.producers | set.readers).each([&](std::size_t neighbour) {
    for (const auto p : with_[neighbour]) {
      if (std::exchange(met_[p], turn_) == turn_) continue;
      const auto& partner = partners_[p];
      if (!joins(set, partner)) continue;
      if (set.size + partner.size > limits_->max_members) continue;
      if (known_.contains(set.nodes | partner.nodes)) continue;
      auto both = united(set, partner);
      if (!both.convex()) continue;
      if (limits_->max_depth < both.size && wiring_->depth_of(both.nodes) > limits_->max_depth) {
        continue;
      }
      known_.insert(both.nodes);
      levels_[both.size].push_back(std::move(both));
    }
  });
}

void Closure::remember(const Grown& set) {
  set.nodes.each([&](std::size_t node) { with_[node].push_back(partners_.size()); });
  partners_.push_back(set);
  met_.push_back(0);
}

/// Semi-naive, by size: a union is larger than both its parts, so that when a size has its turn all
/// its sets are there, and each pair meets once, when the second of the two is looked at.
///
/// Where single nodes are combined without conditions, it is enough to add one node at a time: in
/// every connected convex set of at least two there is one without producers, or one without
/// readers, inside whose removal leaves the rest connected (a leaf block of the set has at least
/// two such ends and at most one cut vertex), and convex.
std::vector<NodeSet> Closure::run(const std::vector<NodeSet>& base) {
  bool single = joins_->empty();
  for (const auto& nodes : base) {
    const auto size = nodes.count();
    if (size > limits_->max_members || !known_.insert(nodes).second) continue;
    if (size > limits_->max_depth && wiring_->depth_of(nodes) > limits_->max_depth) continue;
    single = single && size == 1;
    levels_[size].push_back(grown(nodes));
    levels_[size].back().given = true;
  }
  std::vector<NodeSet> found;
  for (auto at = levels_.begin(); at != levels_.end(); at = levels_.erase(at)) {
    auto& level = at->second;
    if (found.size() >= limits_->max_sets) {
      std::erase_if(level, [](const Grown& set) { return !set.given; });
    }
    keep_best(level);
    for (const auto& set : level) {
      found.push_back(set.nodes);
      if (found.size() < limits_->max_sets) combine(set);
      if (!single || at->first == 1) remember(set);
    }
  }
  return found;
}

}  // namespace

std::vector<NodeSet> closure(const Wiring& wiring, const std::vector<NodeSet>& base,
                             const std::vector<JoinSets>& joins, const ClosureLimits& limits) {
  return Closure(wiring, joins, limits).run(base);
}

}  // namespace penstock::collage
