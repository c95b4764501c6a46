// Blocks: what PipeDream would not divide.
#pragma once

#include <vector>

#include "penstock/planner/problem/instance.h"

namespace penstock::planner {

/// The instance's groups in blocks, each ascending, the blocks in a topological order. Of every
/// biconnected component of the undirected graph the groups that another one of it reads are in one
/// block, as in the PipeDream baseline of Tarnawski et al.; blocks on a circle are merged. Inputs
/// that several groups read, and groups without work that many read, are blocks of their own.
/// Source: Hopcroft and Tarjan, Algorithm 447, CACM 16(6), 1973; here without recursion.
std::vector<std::vector<int>> find_blocks(const Instance& instance);

}  // namespace penstock::planner
