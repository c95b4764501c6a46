// Tarjan's algorithm and a depth-first search for a circle, both with a stack of their own.
#include "penstock/planner/problem/components.h"

#include <algorithm>
#include <cstddef>

#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

/// Successors of node i: to[begin[i] .. begin[i+1]).
struct Successors {
  std::vector<int> begin, to;

  Successors(int count, const Arcs& arcs) : begin(at(count) + 1, 0), to(arcs.size()) {
    for (const auto& arc : arcs) ++begin[at(arc.first) + 1];
    for (std::size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
    auto next = begin;
    for (const auto& arc : arcs) to[at(next[at(arc.first)]++)] = arc.second;
  }
};

class Tarjan {
 public:
  Tarjan(int count, const Arcs& arcs)
      : successors_(count, arcs),
        next_(successors_.begin),
        index_(at(count), -1),
        low_(at(count), 0),
        component_(at(count), -1) {}

  std::vector<int> run() {
    for (std::size_t root = 0; root < index_.size(); ++root) {
      if (index_[root] < 0) visit(static_cast<int>(root));
    }
    for (int& component : component_) component = found_ - 1 - component;
    return std::move(component_);
  }

 private:
  void enter(int node) {
    index_[at(node)] = low_[at(node)] = entered_++;
    open_.push_back(node);
    path_.push_back(node);
  }

  void visit(int root) {
    enter(root);
    while (!path_.empty()) {
      const int node = path_.back();
      if (next_[at(node)] < successors_.begin[at(node) + 1]) {
        const int to = successors_.to[at(next_[at(node)]++)];
        if (index_[at(to)] < 0) {
          enter(to);
        } else if (component_[at(to)] < 0) {
          low_[at(node)] = std::min(low_[at(node)], index_[at(to)]);
        }
        continue;
      }
      leave(node);
    }
  }

  void leave(int node) {
    path_.pop_back();
    if (!path_.empty()) low_[at(path_.back())] = std::min(low_[at(path_.back())], low_[at(node)]);
    if (low_[at(node)] != index_[at(node)]) return;
    int member = -1;
    do {
      member = open_.back();
      open_.pop_back();
      component_[at(member)] = found_;
    } while (member != node);
    ++found_;
  }

  Successors successors_;
  std::vector<int> next_;  // The next arc to follow from each node.
  std::vector<int> index_, low_, component_;
  std::vector<int> open_, path_;
  int entered_ = 0, found_ = 0;
};

}  // namespace

std::vector<int> strong_components(int count, const Arcs& arcs) {
  return Tarjan(count, arcs).run();
}

std::vector<int> find_circle(int count, const Arcs& arcs) {
  const Successors successors(count, arcs);
  std::vector<int> next = successors.begin;
  std::vector<int> place(at(count), -1);  // On the path; -2: done, not on a circle.
  std::vector<int> path;
  for (int root = 0; root < count; ++root) {
    if (place[at(root)] == -1) path.push_back(root), place[at(root)] = 0;
    while (!path.empty()) {
      const int node = path.back();
      if (next[at(node)] == successors.begin[at(node) + 1]) {
        place[at(node)] = -2;
        path.pop_back();
        continue;
      }
      const int to = successors.to[at(next[at(node)]++)];
      if (place[at(to)] >= 0) return {path.begin() + place[at(to)], path.end()};
      if (place[at(to)] == -2) continue;
      place[at(to)] = static_cast<int>(path.size());
      path.push_back(to);
    }
  }
  return {};
}

}  // namespace penstock::planner
