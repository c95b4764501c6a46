// Blocks: what lies between the articulation points of a graph.
#pragma once

#include <vector>

#include "penstock/planner/instance.h"

namespace penstock::planner {

/// The instance's groups in blocks, each ascending, the blocks in a topological order. Every
/// articulation point of the undirected graph is a block of its own, and so is the rest of every
/// biconnected component; blocks on a circle are merged. Inputs that several groups read count as
/// no connection and are blocks of their own.
/// Source: Hopcroft and Tarjan, Algorithm 447, CACM 16(6), 1973; here without recursion.
std::vector<std::vector<int>> find_blocks(const Instance& instance);

}  // namespace penstock::planner
