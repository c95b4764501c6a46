// Dinic's maximum flow: levels by breadth-first search, augmenting paths by depth-first search.
#include "penstock/planner/bounds/min_cut.h"

#include <algorithm>
#include <cmath>

namespace penstock::planner {

void MinCut::reset(int nodes) {
  base_ = 0;
  first_.assign(at(nodes), -1);
  ends_.assign(at(nodes), 0);
  arcs_.clear();
}

int MinCut::add_node() {
  first_.push_back(-1);
  ends_.push_back(0);
  return static_cast<int>(first_.size()) - 1;
}

void MinCut::add_ends(int node, double outside, double inside) {
  ends_[at(node)] += outside - inside;
  base_ += inside;
}

void MinCut::add_arc(int a, int b, double there, double back) {
  if (a == b || (there <= 0 && back <= 0)) return;
  arcs_.push_back({b, first_[at(a)], there});
  first_[at(a)] = static_cast<int>(arcs_.size()) - 1;
  arcs_.push_back({a, first_[at(b)], back});
  first_[at(b)] = static_cast<int>(arcs_.size()) - 1;
}

double MinCut::run() {
  constexpr double kRounding = 1e-13;  // Of the largest end: less is no flow.
  double largest = 0, gains = 0, before = 0, after = 0;
  for (const double end : ends_) {
    largest = std::max(largest, std::abs(end));
    gains += std::min(0.0, end);
    before += std::max(0.0, end);
  }
  rounding_ = kRounding * largest;
  while (find_levels()) {
    next_ = first_;
    for (int node = 0; node < static_cast<int>(ends_.size()); ++node) {
      if (ends_[at(node)] > rounding_) push_from(node);
    }
  }
  for (const double end : ends_) after += std::max(0.0, end);
  return base_ + gains + (before - after);
}

/// Levels of the nodes that the source reaches; whether the sink is among them.
bool MinCut::find_levels() {
  level_.assign(ends_.size(), -1);
  queue_.clear();
  bool found = false;
  for (int node = 0; node < static_cast<int>(ends_.size()); ++node) {
    if (ends_[at(node)] <= rounding_) continue;
    level_[at(node)] = 0;
    queue_.push_back(node);
  }
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    const int node = queue_[i];
    found = found || ends_[at(node)] < -rounding_;
    for (int a = first_[at(node)]; a >= 0; a = arcs_[at(a)].next) {
      const auto& arc = arcs_[at(a)];
      if (arc.room <= rounding_ || level_[at(arc.to)] >= 0) continue;
      level_[at(arc.to)] = level_[at(node)] + 1;
      queue_.push_back(arc.to);
    }
  }
  return found;
}

/// Depth first along rising levels.
void MinCut::push_from(int root) {
  path_.clear();
  while (ends_[at(root)] > rounding_) {
    const int node = path_.empty() ? root : arcs_[at(path_.back())].to;
    if (ends_[at(node)] < -rounding_) {
      double flow = std::min(ends_[at(root)], -ends_[at(node)]);
      for (const int a : path_) flow = std::min(flow, arcs_[at(a)].room);
      ends_[at(root)] -= flow;
      ends_[at(node)] += flow;
      std::size_t kept = path_.size();
      for (std::size_t i = path_.size(); i-- > 0;) {
        arcs_[at(path_[i])].room -= flow;
        arcs_[at(path_[i] ^ 1)].room += flow;
        if (arcs_[at(path_[i])].room <= rounding_) kept = i;
      }
      path_.resize(kept);
      continue;
    }
    int& a = next_[at(node)];
    while (a >= 0 && (arcs_[at(a)].room <= rounding_ ||
                      level_[at(arcs_[at(a)].to)] != level_[at(node)] + 1)) {
      a = arcs_[at(a)].next;
    }
    if (a >= 0) {
      path_.push_back(a);
    } else if (path_.empty()) {
      return;
    } else {
      level_[at(node)] = -1;  // A dead end.
      path_.pop_back();
    }
  }
}

}  // namespace penstock::planner
