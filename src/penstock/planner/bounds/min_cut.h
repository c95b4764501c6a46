// MinCut: the cheapest way to divide nodes between two sides.
#pragma once

#include <vector>

#include "penstock/planner/problem/index.h"

namespace penstock::planner {

/// Nodes 0, 1, ... are each on the inner or the outer side. Made to be used again and again.
class MinCut {
 public:
  void reset(int nodes);  ///< Forgets all costs.
  int add_node();
  /// What it costs that `node` is outside, and inside. Finite, as any sign.
  void add_ends(int node, double outside, double inside);
  /// What it costs that `a` is inside and `b` is not, and the other way round. May be infinite.
  void add_arc(int a, int b, double there, double back);

  /// What all ways cost at least: the least cost but for rounding. Source: Dinic, Soviet Math.
  /// Doklady 11, 1970.
  double run();
  /// After run(): the side in a cheapest way.
  [[nodiscard]] bool is_inside(int node) const { return level_[at(node)] >= 0; }

 private:
  struct Arc {  // Its neighbour, index ^ 1, is the one back.
    int to = 0;
    int next = -1;    // Of the same node.
    double room = 0;  // For more flow.
  };

  bool find_levels();
  void push_from(int root);

  double base_ = 0, rounding_ = 0;
  std::vector<double> ends_;  // [node] More than 0: what the source has left; else the sink.
  std::vector<int> first_;    // [node] Its first arc.
  std::vector<int> level_;    // [node] Arcs from the source; -1: out of reach.
  std::vector<int> next_;     // [node] The arc to try next.
  std::vector<Arc> arcs_;
  std::vector<int> queue_, path_;
};

}  // namespace penstock::planner
