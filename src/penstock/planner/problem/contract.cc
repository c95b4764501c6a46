// Proves when a group may join its neighbour, merges pass by pass, and builds the new instance.
#include "penstock/planner/problem/contract.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "penstock/planner/problem/components.h"
#include "penstock/planner/problem/fits.h"
#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

/// Whether all groups fit on every device together.
bool memory_is_free(const Instance& instance) {
  const double all = std::accumulate(instance.memory.begin(), instance.memory.end(), 0.0);
  for (int t = 0; t < instance.types; ++t) {
    if (instance.type_count[at(t)] > 0 && !fits(all, instance.type_memory[at(t)])) return false;
  }
  return true;
}

/// Take a split with `group` and its only direct successor (predecessor) `other` in different
/// stages, and move `group` to the stage of `other`. The order stays valid. Let c be the cost of
/// the values that only these two share, o that of the group's other values, p the group's time.
/// The stage of `other` no longer pays c, and now at most p + o. The stage that the group leaves no
/// longer pays c and p, and at most o more for values that are newly cut. So with the serial load
/// neither grows if c >= p + o in every mode that `other` can run in; with a maximum, if p = o = 0.
bool may_move(const Instance& instance, int group, int other) {
  for (int m = 0; m < instance.modes; ++m) {
    const int t = instance.mode_type[at(m)];
    if (instance.type_count[at(t)] == 0 || instance.time_of(other, m) == kInfinite) continue;
    if (instance.time_of(group, m) == kInfinite) return false;
  }
  for (int t = 0; t < instance.types; ++t) {
    if (instance.type_count[at(t)] == 0) continue;
    double shared = 0, own = 0;
    for (const int v : instance.values_of[group]) {
      const double receive = instance.receive[at(v, instance.types, t)];
      const double send = instance.send[at(v, instance.types, t)];
      const auto pins = instance.pins[v];
      const bool only_two = pins.size() == 2 && (pins[0] == other || pins[1] == other);
      (only_two ? shared : own) += only_two ? std::min(receive, send) : std::max(receive, send);
    }
    if (instance.type_overlap[at(t)] != Overlap::kSerial) shared = 0;
    for (int m = 0; m < instance.modes; ++m) {
      if (instance.mode_type[at(m)] != t) continue;
      const double time = instance.time_of(group, m);
      if (time < kInfinite && shared < time + own) return false;
    }
  }
  return true;
}

/// Merges found in one pass: what a group moves into, itself where it stays. What moves is no
/// target, so that each move may be judged by itself.
std::vector<int> find_moves(const Instance& instance, bool memory_free) {
  enum class Role : char { kStays, kLeaves, kTarget };
  std::vector<Role> role(at(instance.groups), Role::kStays);
  std::vector<int> cluster(at(instance.groups));
  std::iota(cluster.begin(), cluster.end(), 0);
  for (int g = 0; g < instance.groups; ++g) {
    if (role[at(g)] != Role::kStays) continue;
    if (!memory_free && instance.memory[at(g)] > 0) continue;
    for (const auto near : {instance.after[g], instance.before[g]}) {
      if (near.size() != 1 || role[at(near[0])] == Role::kLeaves) continue;
      if (!may_move(instance, g, near[0])) continue;
      role[at(g)] = Role::kLeaves;
      role[at(near[0])] = Role::kTarget;
      cluster[at(g)] = near[0];
      break;
    }
  }
  return cluster;
}

Arcs arcs_between(const Instance& instance, const std::vector<int>& cluster) {
  Arcs arcs;
  for (int g = 0; g < instance.groups; ++g) {
    for (const int after : instance.after[g]) {
      const int from = cluster[at(g)], to = cluster[at(after)];
      if (from != to) arcs.emplace_back(from, to);
    }
  }
  std::ranges::sort(arcs);
  arcs.erase(std::unique(arcs.begin(), arcs.end()), arcs.end());
  return arcs;
}

/// For each group its cluster's place in a topological order.
std::vector<int> order_clusters(const Instance& instance, const std::vector<int>& cluster) {
  const auto arcs = arcs_between(instance, cluster);
  std::vector<int> missing(at(instance.groups), 0), place(at(instance.groups), -1), number;
  for (const auto& arc : arcs) ++missing[at(arc.second)];
  std::priority_queue<int, std::vector<int>, std::greater<>> open;
  std::vector<char> seen(at(instance.groups), 0);
  for (const int c : cluster) {
    if (std::exchange(seen[at(c)], 1) == 0 && missing[at(c)] == 0) open.push(c);
  }
  for (int next = 0; !open.empty(); ++next) {
    const int c = open.top();
    open.pop();
    place[at(c)] = next;
    const auto first = std::ranges::lower_bound(arcs, std::pair{c, 0});
    for (auto arc = first; arc != arcs.end() && arc->first == c; ++arc) {
      if (--missing[at(arc->second)] == 0) open.push(arc->second);
    }
  }
  for (const int c : cluster) number.push_back(place[at(c)]);
  return number;
}

/// The same modes and types, with nothing to run on them yet.
Instance devices_of(const Instance& instance) {
  Instance bare;
  bare.modes = instance.modes;
  bare.types = instance.types;
  bare.mode_type = instance.mode_type;
  bare.mode_launch = instance.mode_launch;
  bare.type_count = instance.type_count;
  bare.type_memory = instance.type_memory;
  bare.type_overlap = instance.type_overlap;
  return bare;
}

/// The values that still have two pins, equal ones summed.
void put_values(const Instance& from, const std::vector<int>& number, Instance& to) {
  struct Moved {
    int producer = 0, value = 0;
    std::vector<int> pins;
  };
  std::vector<Moved> moved;
  for (int v = 0; v < from.values; ++v) {
    Moved one{number[at(from.producer[at(v)])], v, {}};
    for (const int pin : from.pins[v]) one.pins.push_back(number[at(pin)]);
    std::ranges::sort(one.pins);
    one.pins.erase(std::unique(one.pins.begin(), one.pins.end()), one.pins.end());
    if (one.pins.size() > 1) moved.push_back(std::move(one));
  }
  std::ranges::stable_sort(moved, [](const Moved& a, const Moved& b) {
    return a.producer != b.producer ? a.producer < b.producer : a.pins < b.pins;
  });
  Arcs values_of;
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const auto& one = moved[i];
    const bool equal =
        i > 0 && moved[i - 1].producer == one.producer && moved[i - 1].pins == one.pins;
    if (!equal) {
      to.producer.push_back(one.producer);
      to.pins.add(one.pins);
      to.bytes.push_back(0);
      to.receive.resize(to.receive.size() + at(from.types), 0);
      to.send.resize(to.receive.size(), 0);
      for (const int pin : one.pins) values_of.emplace_back(pin, to.values);
      ++to.values;
    }
    to.bytes.back() += from.bytes[at(one.value)];
    for (int t = 0; t < from.types; ++t) {
      to.receive[at(to.values - 1, to.types, t)] += from.receive[at(one.value, from.types, t)];
      to.send[at(to.values - 1, to.types, t)] += from.send[at(one.value, from.types, t)];
    }
  }
  to.values_of = lists_of(to.groups, values_of);
}

}  // namespace

Instance merge_groups(const Instance& instance, const std::vector<int>& number) {
  Instance merged = devices_of(instance);
  merged.groups = 1 + *std::ranges::max_element(number);
  merged.time.assign(at(merged.groups, merged.modes, 0), 0);
  merged.memory.assign(at(merged.groups), 0);
  Arcs members;
  for (int g = 0; g < instance.groups; ++g) {
    const int n = number[at(g)];
    merged.memory[at(n)] += instance.memory[at(g)];
    for (int m = 0; m < instance.modes; ++m) {
      merged.time[at(n, merged.modes, m)] += instance.time_of(g, m);
    }
    for (const int member : instance.members[g]) members.emplace_back(n, member);
  }
  merged.members = lists_of(merged.groups, members);
  auto arcs = arcs_between(instance, number);
  merged.after = lists_of(merged.groups, arcs);
  for (auto& [before, after] : arcs) std::swap(before, after);
  merged.before = lists_of(merged.groups, arcs);
  put_values(instance, number, merged);
  return merged;
}

Instance contract(const Instance& instance) {
  const bool memory_free = memory_is_free(instance);
  Instance contracted = instance;
  while (true) {
    const auto cluster = find_moves(contracted, memory_free);
    bool any = false;
    for (int g = 0; g < contracted.groups; ++g) any = any || cluster[at(g)] != g;
    if (!any) return contracted;
    contracted = merge_groups(contracted, order_clusters(contracted, cluster));
  }
}

}  // namespace penstock::planner
