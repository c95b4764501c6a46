// Sorts values by their cost against the work at their ends, and merges greedily by union-find.
#include "penstock/planner/search/coarsen.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "penstock/planner/problem/contract.h"
#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

/// Sets that grow together, and the time of each in every mode.
class Blocks {
 public:
  explicit Blocks(const Instance& instance)
      : modes_(at(instance.modes)), parent_(at(instance.groups)), time_(instance.time) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  int find(int group) {
    while (parent_[at(group)] != group) {
      group = parent_[at(group)] = parent_[at(parent_[at(group)])];
    }
    return group;
  }

  /// Whether it merged the two.
  bool merge(int a, int b, double longest) {
    a = find(a);
    b = find(b);
    if (a == b) return false;
    double least = kInfinite;
    for (std::size_t m = 0; m < modes_; ++m) {
      least = std::min(least, time_[at(a) * modes_ + m] + time_[at(b) * modes_ + m]);
    }
    if (!(least <= longest)) return false;
    for (std::size_t m = 0; m < modes_; ++m) time_[at(a) * modes_ + m] += time_[at(b) * modes_ + m];
    parent_[at(b)] = a;
    return true;
  }

  /// Numbers the blocks by their first group.
  std::vector<int> numbers() {
    std::vector<int> number(parent_.size(), -1), block_of;
    int next = 0;
    for (int g = 0; std::cmp_less(g, parent_.size()); ++g) {
      auto& own = number[at(find(g))];
      if (own < 0) own = next++;
      block_of.push_back(own);
    }
    return block_of;
  }

 private:
  std::size_t modes_;
  std::vector<int> parent_;
  std::vector<double> time_;  // [root * modes + mode]
};

struct Glue {
  double strength = 0;
  int a = 0, b = 0;
};

/// The ends of each value, the strongest glue first: what it costs to part them for the work moved.
std::vector<Glue> rate(const Instance& instance, const std::vector<int>& keep_apart,
                       Random& random) {
  std::vector<double> work;
  work.reserve(at(instance.groups));
  for (int g = 0; g < instance.groups; ++g) work.push_back(least_time(instance, g));
  const double some = 0.1 * std::accumulate(work.begin(), work.end(), 0.0) / instance.groups;
  std::vector<Glue> glue;
  for (int v = 0; v < instance.values; ++v) {
    double cost = 0;  // Of the dearest type: others may pay nothing.
    for (int t = 0; t < instance.types; ++t) {
      const auto i = at(v, instance.types, t);
      cost = std::max(cost, instance.receive[i] + instance.send[i]);
    }
    const auto pins = instance.pins[v];
    const int producer = instance.producer[at(v)];
    cost /= static_cast<double>(pins.size() - 1);
    for (const int g : pins) {
      if (g == producer || keep_apart[at(g)] != keep_apart[at(producer)]) continue;
      const double luck = std::exp(2 * random.unit() - 1);
      glue.push_back(
          {luck * (cost + 1e-12) / (work[at(g)] + work[at(producer)] + some + 1e-12), producer, g});
    }
  }
  std::ranges::stable_sort(glue,
                           [](const Glue& x, const Glue& y) { return x.strength > y.strength; });
  return glue;
}

}  // namespace

Coarse coarsen(const Instance& instance, const std::vector<int>& keep_apart, int target,
               double longest, Random& random) {
  Blocks blocks(instance);
  int left = instance.groups;
  for (const auto& glue : rate(instance, keep_apart, random)) {
    if (left <= target) break;
    if (blocks.merge(glue.a, glue.b, longest)) --left;
  }
  auto block_of = blocks.numbers();
  return {merge_groups(instance, block_of), std::move(block_of)};
}

}  // namespace penstock::planner
