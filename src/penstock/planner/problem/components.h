// Circles of a directed graph.
#pragma once

#include <utility>
#include <vector>

namespace penstock::planner {

using Arcs = std::vector<std::pair<int, int>>;

/// For each of the nodes 0 .. count-1 the number of its strongly connected component. The numbers
/// are dense and respect the arcs: a component that reaches another has the lower number.
/// Source: Tarjan, SIAM J. Comput. 1(2), 1972; here without recursion.
std::vector<int> strong_components(int count, const Arcs& arcs);

/// The nodes of one circle, in its order; empty where there is none.
std::vector<int> find_circle(int count, const Arcs& arcs);

}  // namespace penstock::planner
