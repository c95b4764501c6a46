#include "penstock/planner/blocks.h"

#include <algorithm>

#include "penstock/planner/components.h"
#include "penstock/planner/index.h"

namespace penstock::planner {
namespace {

/// A mask or a position that many groups read would make one component of them all.
bool is_input(const Instance& instance, int group) {
  return instance.before[group].empty() && instance.after[group].size() > 1;
}

/// Gives every group a block: its own where it is an articulation point, else its component's.
class Biconnected {
 public:
  explicit Biconnected(const Instance& instance)
      : next_(at(instance.groups), 0),
        index_(at(instance.groups), -1),
        low_(at(instance.groups), 0),
        block_(at(instance.groups), -1),
        components_of_(at(instance.groups), 0) {
    std::vector<std::vector<int>> neighbours(at(instance.groups));
    const auto join = [&](int a, int b) {
      if (is_input(instance, a) || is_input(instance, b)) return;
      neighbours[at(a)].push_back(b);
      neighbours[at(b)].push_back(a);
    };
    for (int g = 0; g < instance.groups; ++g) {
      for (const int after : instance.after[g]) join(g, after);
    }
    for (int v = 0; v < instance.values; ++v) {
      for (const int pin : instance.pins[v]) {
        if (pin != instance.producer[at(v)]) join(instance.producer[at(v)], pin);
      }
    }
    for (const auto& list : neighbours) neighbours_.add(list);
  }

  std::vector<int> run() {
    for (int root = 0; root < neighbours_.size(); ++root) {
      if (index_[at(root)] < 0) visit(root);
    }
    int blocks = components_;
    for (std::size_t g = 0; g < block_.size(); ++g) {
      if (components_of_[g] != 1) block_[g] = blocks++;  // An articulation point, or alone.
    }
    return std::move(block_);
  }

 private:
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
      if (next_[at(group)] < static_cast<int>(near.size())) {
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
    int member = -1;
    do {
      member = open_.back();
      open_.pop_back();
      put(member);
    } while (member != group);
    put(parent);
    ++components_;
  }

  void put(int group) {
    block_[at(group)] = components_;
    ++components_of_[at(group)];
  }

  Lists neighbours_;
  std::vector<int> next_, index_, low_;
  std::vector<int> block_;          // The last component it was found in.
  std::vector<int> components_of_;  // How many it is in.
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
