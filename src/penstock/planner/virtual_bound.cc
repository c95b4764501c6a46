#include "penstock/planner/virtual_bound.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "penstock/planner/index.h"
#include "penstock/planner/prices.h"

namespace penstock::planner {
namespace {

/// Where a group can run, and for how long at least.
struct Reach {
  double least = kInfinite;
  std::vector<int> types;
};

Reach reach_of(const Instance& instance, int group) {
  Reach reach;
  for (int m = 0; m < instance.modes; ++m) {
    const double time = instance.time_of(group, m);
    const int type = instance.mode_type[at(m)];
    if (time == kInfinite || instance.type_count[at(type)] == 0) continue;
    reach.least = std::min(reach.least, time);
    reach.types.push_back(type);
  }
  return reach;
}

/// Takes the groups longest first; their sums include the last, the shortest.
double pigeonhole_bound(std::vector<Reach> groups, const std::vector<int>& type_count) {
  std::ranges::stable_sort(groups, std::greater<>(), &Reach::least);
  std::vector<double> sum{0};
  std::vector<bool> reached(type_count.size(), false);
  std::size_t devices = 0;
  double bound = 0;
  for (const auto& group : groups) {
    sum.push_back(sum.back() + group.least);
    for (const int type : group.types) {
      if (reached[at(type)]) continue;
      reached[at(type)] = true;
      devices += at(type_count[at(type)]);
    }
    const std::size_t count = sum.size() - 1;
    const std::size_t share = (count + devices - 1) / devices;
    bound = std::max(bound, sum[count] - sum[count - share]);
  }
  return bound;
}

}  // namespace

double virtual_bound(Instance instance, double known) {
  std::vector<Reach> groups;
  for (int g = 0; g < instance.groups; ++g) {
    for (int m = 0; m < instance.modes; ++m) {
      auto& time = instance.time[at(g, instance.modes, m)];
      if (time >= known) time = kInfinite;
    }
    groups.push_back(reach_of(instance, g));
    if (groups.back().types.empty()) return known;  // Nothing is better.
  }
  const double bound = std::max(period_bound(instance, make_prices(instance), false),
                                pigeonhole_bound(std::move(groups), instance.type_count));
  // Sums in another order may come out a little too large.
  return std::min(known, bound * (1 - 1e-12));
}

}  // namespace penstock::planner
