// Biconnected components by an iterative depth-first search, merged into blocks by union-find.
#include "penstock/planner/baselines/blocks.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "penstock/planner/problem/components.h"
#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

/// A mask, a position or a state that many groups read would make one component of them all.
bool is_shared(const Instance& instance, int group) {
  const auto readers = instance.after[group].size();
  if (instance.before[group].empty()) return readers > 1;
  for (int m = 0; m < instance.modes; ++m) {
    const double time = instance.time_of(group, m);
    if (time > 0 && time < kInfinite) return false;
  }
  return readers > 2;
}

/// Numbers for the groups, equal where the tails of arcs of one component meet.
class Biconnected {
 public:
  explicit Biconnected(const Instance& instance)
      : next_(at(instance.groups), 0),
        index_(at(instance.groups), -1),
        low_(at(instance.groups), 0),
        component_(at(instance.groups), -1),
        parent_(at(instance.groups)) {
    std::iota(parent_.begin(), parent_.end(), 0);
    std::vector<std::vector<int>> neighbours(at(instance.groups)), readers(at(instance.groups));
    const auto join = [&](int from, int to) {
      if (is_shared(instance, from)) return;
      neighbours[at(from)].push_back(to);
      neighbours[at(to)].push_back(from);
      readers[at(from)].push_back(to);
    };
    for (int g = 0; g < instance.groups; ++g) {
      for (const int after : instance.after[g]) join(g, after);
    }
    for (const auto& list : neighbours) neighbours_.add(list);
    for (const auto& list : readers) readers_.add(list);
  }

  std::vector<int> run() {
    for (int root = 0; root < neighbours_.size(); ++root) {
      if (index_[at(root)] < 0) visit(root);
    }
    std::vector<int> number;
    number.reserve(at(neighbours_.size()));
    for (int g = 0; g < neighbours_.size(); ++g) number.push_back(find(g));
    return number;
  }

 private:
  int find(int group) {
    while (parent_[at(group)] != group) {
      group = parent_[at(group)] = parent_[at(parent_[at(group)])];
    }
    return group;
  }

  void enter(int group) {
    index_[at(group)] = low_[at(group)] = entered_++;
    path_.push_back(group);
    open_.push_back(group);
  }

  void visit(int root) {
    enter(root);
    while (!path_.empty()) {
      const int group = path_.back();
      const auto near = neighbours_[group];
      if (std::cmp_less(next_[at(group)], near.size())) {
        const int other = near[at(next_[at(group)]++)];
        if (index_[at(other)] < 0) {
          enter(other);
        } else {
          low_[at(group)] = std::min(low_[at(group)], index_[at(other)]);
        }
        continue;
      }
      path_.pop_back();
      if (!path_.empty()) leave(group, path_.back());
    }
    open_.clear();
  }

  /// All of `group`'s subtree is known; it is a component of its own where none reaches past
  /// `parent`. An edge walked back and forth only makes low the parent's index: no harm.
  void leave(int group, int parent) {
    low_[at(parent)] = std::min(low_[at(parent)], low_[at(group)]);
    if (low_[at(group)] < index_[at(parent)]) return;
    std::vector<int> members{parent};
    do {
      members.push_back(open_.back());
      open_.pop_back();
    } while (members.back() != group);
    merge_tails(members);
  }

  void merge_tails(const std::vector<int>& members) {
    ++components_;
    for (const int g : members) component_[at(g)] = components_;
    int first = -1;
    for (const int g : members) {
      const auto inside = [&](int reader) { return component_[at(reader)] == components_; };
      if (std::ranges::none_of(readers_[g], inside)) continue;
      if (first < 0) first = g;
      parent_[at(find(g))] = find(first);
    }
  }

  Lists neighbours_, readers_;
  std::vector<int> next_, index_, low_;
  std::vector<int> component_;  // The last component it was found in.
  std::vector<int> parent_;     // Of the sets of groups that are merged.
  std::vector<int> path_, open_;
  int entered_ = 0, components_ = 0;
};

}  // namespace

std::vector<std::vector<int>> find_blocks(const Instance& instance) {
  const auto block = Biconnected(instance).run();
  const int count = 1 + *std::ranges::max_element(block);
  Arcs arcs;
  for (int g = 0; g < instance.groups; ++g) {
    for (const int after : instance.after[g]) {
      if (block[at(g)] != block[at(after)]) arcs.emplace_back(block[at(g)], block[at(after)]);
    }
  }
  const auto place = strong_components(count, arcs);
  std::vector<std::vector<int>> blocks(at(1 + *std::ranges::max_element(place)));
  for (int g = 0; g < instance.groups; ++g) blocks[at(place[at(block[at(g)])])].push_back(g);
  std::erase_if(blocks, [](const auto& groups) { return groups.empty(); });
  return blocks;
}

}  // namespace penstock::planner
