// Topological sorts by a stack, by the least cut and by a priority queue of seeded random keys.
#include "penstock/planner/throughput/linear_order.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <random>
#include <utility>

#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

std::vector<int> count_missing(const Lists& before) {
  std::vector<int> missing;
  for (int g = 0; g < before.size(); ++g) missing.push_back(static_cast<int>(before[g].size()));
  return missing;
}

/// The price of a cut through the value, averaged over the types.
std::vector<double> cut_costs(const Instance& instance) {
  std::vector<double> costs(at(instance.values), 0);
  for (int v = 0; v < instance.values; ++v) {
    for (int t = 0; t < instance.types; ++t) {
      costs[at(v)] += instance.receive[at(v, instance.types, t)];
      costs[at(v)] += instance.send[at(v, instance.types, t)];
    }
  }
  return costs;
}

}  // namespace

LinearOrder given_order(const Instance& instance) {
  LinearOrder order(at(instance.groups));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

LinearOrder depth_first_order(const Instance& instance, bool backward) {
  const auto& next = backward ? instance.before : instance.after;
  auto missing = count_missing(backward ? instance.after : instance.before);
  std::vector<int> open;
  for (int i = instance.groups - 1; i >= 0; --i) {
    const int group = backward ? instance.groups - 1 - i : i;
    if (missing[at(group)] == 0) open.push_back(group);
  }
  LinearOrder order;
  while (!open.empty()) {
    const int group = open.back();
    open.pop_back();
    order.push_back(group);
    const auto reached = next[group];
    for (std::size_t i = reached.size(); i-- > 0;) {
      if (--missing[at(reached[i])] == 0) open.push_back(reached[i]);
    }
  }
  if (backward) std::ranges::reverse(order);
  return order;
}

LinearOrder least_cut_order(const Instance& instance) {
  const auto costs = cut_costs(instance);
  auto missing = count_missing(instance.before);
  std::vector<int> placed(at(instance.values), 0), open;
  for (int g = 0; g < instance.groups; ++g) {
    if (missing[at(g)] == 0) open.push_back(g);
  }
  const auto growth = [&](int group) {
    double sum = 0;
    for (const int v : instance.values_of[group]) {
      if (placed[at(v)] == 0) sum += costs[at(v)];
      if (placed[at(v)] + 1 == static_cast<int>(instance.pins[v].size())) sum -= costs[at(v)];
    }
    return sum;
  };
  LinearOrder order;
  while (!open.empty()) {
    std::size_t best = 0;
    double least = kInfinite;
    for (std::size_t i = 0; i < open.size(); ++i) {
      const double now = growth(open[i]);
      if (now < least || (now == least && open[i] < open[best])) {
        least = now;
        best = i;
      }
    }
    const int group = std::exchange(open[best], open.back());
    open.pop_back();
    order.push_back(group);
    for (const int v : instance.values_of[group]) ++placed[at(v)];
    for (const int after : instance.after[group]) {
      if (--missing[at(after)] == 0) open.push_back(after);
    }
  }
  return order;
}

LinearOrder keyed_order(const Instance& instance, const std::vector<double>& keys) {
  using Entry = std::pair<double, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  auto missing = count_missing(instance.before);
  for (int g = 0; g < instance.groups; ++g) {
    if (missing[at(g)] == 0) open.emplace(keys[at(g)], g);
  }
  LinearOrder order;
  while (!open.empty()) {
    const int group = open.top().second;
    open.pop();
    order.push_back(group);
    for (const int after : instance.after[group]) {
      if (--missing[at(after)] == 0) open.emplace(keys[at(after)], after);
    }
  }
  return order;
}

LinearOrder numbered_order(const Instance& instance, int number) {
  if (number == 0) return depth_first_order(instance, false);
  if (number == 1) return depth_first_order(instance, true);
  if (number == 2) return least_cut_order(instance);
  if (number == 3) return given_order(instance);
  std::mt19937 random(static_cast<unsigned>(number));
  std::uniform_real_distribution<double> draw(0, 1);
  // Half of the orders draw a key for each group; the others let groups inherit their
  // predecessors', so that branches stay together.
  std::vector<double> keys;
  for (int g = 0; g < instance.groups; ++g) {
    double key = draw(random);
    if (number % 2 == 0) {
      for (const int before : instance.before[g]) key = std::min(key, keys[at(before)]);
    }
    keys.push_back(key);
  }
  return keyed_order(instance, keys);
}

}  // namespace penstock::planner
