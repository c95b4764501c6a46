// Linear orders: topological orders of the groups, along which stages become intervals.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/planner/problem/instance.h"

namespace penstock::planner {

/// The groups, each behind all groups that stand before it.
using LinearOrder = std::vector<int>;

/// The instance's own numbering.
LinearOrder given_order(const Instance& instance);

/// Depth first from the sources (`backward`: from the sinks, then reversed); follows a branch to
/// its end before it starts the next.
LinearOrder depth_first_order(const Instance& instance, bool backward);

/// Of the groups that may come next always the one that makes the cut smallest.
LinearOrder least_cut_order(const Instance& instance);

/// Of the groups that may come next always the one with the least key. Source: Kahn, CACM 1962.
LinearOrder keyed_order(const Instance& instance, const std::vector<double>& keys);

/// The orders worth trying, the best bets first: those above, then keyed orders with keys drawn
/// from `number`. The same number gives the same order.
LinearOrder numbered_order(const Instance& instance, int number);

}  // namespace penstock::planner
