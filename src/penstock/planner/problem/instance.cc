// Merges groups by strong components, orders them topologically, and joins values with equal pins.
#include "penstock/planner/problem/instance.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

#include "penstock/planner/problem/components.h"
#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

/// The order pairs between clusters, sorted, each once.
Arcs arcs_between(const Arcs& order, const std::vector<int>& cluster) {
  Arcs arcs;
  for (const auto& [before, after] : order) {
    const int from = cluster[at(before)], to = cluster[at(after)];
    if (from != to) arcs.emplace_back(from, to);
  }
  std::ranges::sort(arcs);
  arcs.erase(std::unique(arcs.begin(), arcs.end()), arcs.end());
  return arcs;
}

/// For each cluster its place in the topological order that takes, of those that may come next, the
/// one with the lowest group.
std::vector<int> stable_order(const std::vector<int>& first_group, const Arcs& arcs) {
  const int count = static_cast<int>(first_group.size());
  std::vector<int> missing(at(count), 0), place(at(count), -1), begin(at(count) + 1, 0);
  for (const auto& arc : arcs) {
    ++missing[at(arc.second)];
    ++begin[at(arc.first) + 1];
  }
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  using Entry = std::pair<int, int>;  // Lowest group, cluster.
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (int c = 0; c < count; ++c) {
    if (missing[at(c)] == 0) ready.emplace(first_group[at(c)], c);
  }
  for (int next = 0; !ready.empty(); ++next) {
    const int cluster = ready.top().second;
    ready.pop();
    place[at(cluster)] = next;
    for (int i = begin[at(cluster)]; i < begin[at(cluster) + 1]; ++i) {
      const int after = arcs[at(i)].second;
      if (--missing[at(after)] == 0) ready.emplace(first_group[at(after)], after);
    }
  }
  return place;
}

/// For each of the problem's groups the instance's group that it goes into.
std::vector<int> cluster_groups(const Problem& problem) {
  const int count = static_cast<int>(problem.groups.size());
  Arcs arcs = problem.order;
  for (const auto& set : problem.colocated) {
    for (std::size_t i = 0; i < set.size() && set.size() > 1; ++i) {
      arcs.emplace_back(set[i], set[(i + 1) % set.size()]);  // A circle keeps them together.
    }
  }
  auto cluster = strong_components(count, arcs);
  std::vector<int> first_group(at(1 + *std::ranges::max_element(cluster)), count);
  for (int g = count - 1; g >= 0; --g) first_group[at(cluster[at(g)])] = g;
  const auto place = stable_order(first_group, arcs_between(problem.order, cluster));
  for (int& c : cluster) c = place[at(c)];
  return cluster;
}

void put_types(const Problem& problem, Instance& instance) {
  instance.types = static_cast<int>(problem.types.size());
  instance.modes = static_cast<int>(problem.modes.size());
  for (const auto& mode : problem.modes) {
    instance.mode_type.push_back(mode.type);
    instance.mode_launch.push_back(mode.launch);
  }
  for (const auto& type : problem.types) {
    instance.type_count.push_back(type.unlimited ? instance.groups
                                                 : static_cast<int>(type.devices.size()));
    instance.type_memory.push_back(type.memory);
    instance.type_overlap.push_back(type.overlap);
  }
}

void put_groups(const Problem& problem, const std::vector<int>& cluster, Instance& instance) {
  instance.groups = 1 + *std::ranges::max_element(cluster);
  const auto modes = problem.modes.size();
  instance.time.assign(at(instance.groups) * modes, 0);
  instance.memory.assign(at(instance.groups), 0);
  Arcs members;
  for (std::size_t g = 0; g < cluster.size(); ++g) {
    const auto& group = problem.groups[g];
    const auto c = at(cluster[g]);
    members.emplace_back(cluster[g], static_cast<int>(g));
    instance.memory[c] += group.memory;
    for (std::size_t m = 0; m < modes; ++m) instance.time[c * modes + m] += group.time[m];
  }
  std::ranges::sort(members);
  instance.members = lists_of(instance.groups, members);
}

void put_order(const Problem& problem, const std::vector<int>& cluster, Instance& instance) {
  auto arcs = arcs_between(problem.order, cluster);
  instance.after = lists_of(instance.groups, arcs);
  for (auto& [before, after] : arcs) std::swap(before, after);
  instance.before = lists_of(instance.groups, arcs);
}

/// Merged groups may have lost their last device.
Status check_groups(const Problem& problem, const Instance& instance) {
  for (int g = 0; g < instance.groups; ++g) {
    double most = -1;  // Bytes of the largest device that supports all of it.
    for (int m = 0; m < instance.modes; ++m) {
      const auto type = at(instance.mode_type[at(m)]);
      if (instance.time_of(g, m) == kInfinite || instance.type_count[type] == 0) continue;
      most = std::max(most, instance.type_memory[type]);
    }
    if (most >= instance.memory[at(g)]) continue;
    const auto members = instance.members[g];
    const auto& first = problem.groups[at(members.front())].name;
    const auto& last = problem.groups[at(members.back())].name;
    if (most < 0) {
      return invalid_argument("groups '", first, "' to '", last, "' (", members.size(),
                              ") must stay together, but no device supports them all");
    }
    return invalid_argument("groups '", first, "' to '", last, "' (", members.size(),
                            ") must stay together and need ", instance.memory[at(g)],
                            " bytes, more than any device that supports them has (", most,
                            "); give them more memory (--memory), of hosts in their file");
  }
  return {};
}

/// A value between clusters, before equal ones are merged.
struct Bundle {
  int producer = 0;
  std::vector<int> pins;
  std::vector<int> values;  // The problem's.
};

std::vector<Bundle> bundle_values(const Problem& problem, const std::vector<int>& cluster) {
  std::vector<Bundle> bundles;
  for (std::size_t v = 0; v < problem.values.size(); ++v) {
    const auto& value = problem.values[v];
    Bundle bundle{cluster[at(value.producer)], {cluster[at(value.producer)]}, {}};
    for (const int consumer : value.consumers) bundle.pins.push_back(cluster[at(consumer)]);
    std::ranges::sort(bundle.pins);
    bundle.pins.erase(std::unique(bundle.pins.begin(), bundle.pins.end()), bundle.pins.end());
    bundle.values.push_back(static_cast<int>(v));
    if (bundle.pins.size() > 1) bundles.push_back(std::move(bundle));
  }
  std::ranges::stable_sort(bundles, [](const Bundle& a, const Bundle& b) {
    return a.producer != b.producer ? a.producer < b.producer : a.pins < b.pins;
  });
  std::vector<Bundle> merged;
  for (auto& bundle : bundles) {
    if (!merged.empty() && merged.back().producer == bundle.producer &&
        merged.back().pins == bundle.pins) {
      merged.back().values.push_back(bundle.values.front());
    } else {
      merged.push_back(std::move(bundle));
    }
  }
  return merged;
}

/// The types on which one of `groups` can run.
std::vector<bool> types_of(const Instance& instance, std::span<const int> groups) {
  std::vector<bool> types(at(instance.types), false);
  for (const int group : groups) {
    for (int m = 0; m < instance.modes; ++m) {
      if (instance.time_of(group, m) < kInfinite) types[at(instance.mode_type[at(m)])] = true;
    }
  }
  return types;
}

/// The extreme of `cost(partner)` over the types where the other end may be; 0 where there is none.
template <typename Cost>
double extreme(const Instance& instance, const std::vector<bool>& partners, int type,
               Partner partner, Cost cost) {
  double found = -1;
  for (int other = 0; other < instance.types; ++other) {
    const int needed = other == type ? 2 : 1;  // Devices: it takes two of a type to exchange.
    if (!partners[at(other)] || instance.type_count[at(other)] < needed) continue;
    const double now = cost(other);
    if (found < 0 || (partner == Partner::kLowest ? now < found : now > found)) found = now;
  }
  return std::max(0.0, found);
}

void put_values(const Problem& problem, const std::vector<int>& cluster, Partner partner,
                Instance& instance) {
  const auto bundles = bundle_values(problem, cluster);
  instance.values = static_cast<int>(bundles.size());
  Arcs values_of;
  for (std::size_t b = 0; b < bundles.size(); ++b) {
    const auto& bundle = bundles[b];
    instance.producer.push_back(bundle.producer);
    instance.pins.add(bundle.pins);
    double bytes = 0;
    for (const int value : bundle.values) bytes += problem.values[at(value)].bytes;
    instance.bytes.push_back(bytes);
    for (const int pin : bundle.pins) values_of.emplace_back(pin, static_cast<int>(b));
    auto readers = bundle.pins;
    std::erase(readers, bundle.producer);
    const auto from = types_of(instance, std::span(&bundle.producer, 1));
    const auto to = types_of(instance, readers);
    for (int t = 0; t < instance.types; ++t) {
      double receive = 0, send = 0;
      const bool pays = problem.types[at(t)].pays_transfers;
      for (std::size_t i = 0; i < bundle.values.size() && pays; ++i) {
        const auto& value = problem.values[at(bundle.values[i])];
        receive += extreme(instance, from, t, partner,
                           [&](int other) { return transfer_time(problem, value, other, t); });
        send += extreme(instance, to, t, partner,
                        [&](int other) { return transfer_time(problem, value, t, other); });
      }
      instance.receive.push_back(receive);
      instance.send.push_back(send);
    }
  }
  std::ranges::sort(values_of);
  instance.values_of = lists_of(instance.groups, values_of);
}

}  // namespace

double least_time(const Instance& instance, int group) {
  double least = kInfinite;
  for (int m = 0; m < instance.modes; ++m) least = std::min(least, instance.time_of(group, m));
  return least;
}

Lists lists_of(int count, const std::vector<std::pair<int, int>>& pairs) {
  Lists lists;
  lists.begin.assign(at(count) + 1, 0);
  for (const auto& pair : pairs) ++lists.begin[at(pair.first) + 1];
  std::partial_sum(lists.begin.begin(), lists.begin.end(), lists.begin.begin());
  lists.items.resize(pairs.size());
  auto next = lists.begin;
  for (const auto& [i, item] : pairs) lists.items[at(next[at(i)]++)] = item;
  for (int i = 0; i < count; ++i) {
    const auto list = std::span(lists.items).subspan(at(lists.begin[at(i)]), lists[i].size());
    if (!std::ranges::is_sorted(list)) std::ranges::sort(list);
  }
  return lists;
}

Result<Instance> make_instance(const Problem& problem, Partner partner) {
  PENSTOCK_CHECK_OK(validate(problem));
  const auto cluster = cluster_groups(problem);
  Instance instance;
  put_groups(problem, cluster, instance);
  put_types(problem, instance);
  PENSTOCK_CHECK_OK(check_groups(problem, instance));
  drop_small_devices(instance);
  put_order(problem, cluster, instance);
  put_values(problem, cluster, partner, instance);
  return instance;
}

void drop_small_devices(Instance& instance) {
  constexpr double kRounding = 1 + 1e-9;
  for (int g = 0; g < instance.groups; ++g) {
    for (int m = 0; m < instance.modes; ++m) {
      const double there = instance.type_memory[at(instance.mode_type[at(m)])];
      if (instance.memory[at(g)] <= there * kRounding) continue;
      instance.time[at(g) * at(instance.modes) + at(m)] = kInfinite;
    }
  }
}

Split expand(const Instance& instance, const Split& split) {
  Split expanded;
  for (const auto& stage : split.stages) {
    Stage members{{}, stage.mode, stage.devices};
    for (const int group : stage.groups) {
      const auto list = instance.members[group];
      members.groups.insert(members.groups.end(), list.begin(), list.end());
    }
    std::ranges::sort(members.groups);
    expanded.stages.push_back(std::move(members));
  }
  return expanded;
}

}  // namespace penstock::planner
