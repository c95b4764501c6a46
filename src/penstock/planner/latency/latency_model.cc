// Fills the arrays: order, values at their least costs, pools, modes, and blocks by components.
#include "penstock/planner/latency/latency_model.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "penstock/planner/problem/components.h"
#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

/// So many codes, and codes times pairs of the order, are worth their memory in a bound.
constexpr double kMostCodes = 4096, kMostBounds = 2e7;

/// `pairs` sorted and each once, as lists.
Lists distinct_lists_of(int count, Arcs pairs) {
  std::ranges::sort(pairs);
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  return lists_of(count, pairs);
}

Arcs turned(Arcs arcs) {
  for (auto& [from, to] : arcs) std::swap(from, to);
  return arcs;
}

/// The sets of groups that share a device: `colocated`, joined where they overlap. [group] -> set.
std::vector<int> join_sets(const Problem& problem) {
  Arcs arcs;
  for (const auto& set : problem.colocated) {
    for (std::size_t i = 1; i < set.size(); ++i) {
      arcs.emplace_back(set[i - 1], set[i]);
      arcs.emplace_back(set[i], set[i - 1]);
    }
  }
  return strong_components(static_cast<int>(problem.groups.size()), arcs);
}

void put_order(const Problem& problem, LatencyModel& model) {
  Arcs arcs;
  for (const auto& arc : problem.order) {
    if (arc.first != arc.second) arcs.push_back(arc);
  }
  model.later = distinct_lists_of(model.groups, arcs);
  model.earlier = distinct_lists_of(model.groups, turned(arcs));
  for (const auto& value : problem.values) {
    for (const int reader : value.consumers) arcs.emplace_back(value.producer, reader);
  }
  model.follows = distinct_lists_of(model.groups, std::move(arcs));
  for (int g = 0; g < model.groups; ++g) {
    for (const int to : model.later[g]) {
      const auto from = model.earlier[to];
      const auto place = std::ranges::find(from, g) - from.begin();
      model.later_edge.push_back(model.earlier.begin[at(to)] + static_cast<int>(place));
    }
  }
  const auto place = strong_components(model.groups, problem.order);
  model.topological.resize(at(model.groups));
  for (int g = 0; g < model.groups; ++g) model.topological[at(place[at(g)])] = g;
}

bool supports(const Problem& problem, int group, int type) {
  for (std::size_t m = 0; m < problem.modes.size(); ++m) {
    const bool fits = problem.modes[m].type == type;
    if (fits && problem.groups[at(group)].time[m] < kInfinite) return true;
  }
  return false;
}

/// The least of `cost(partner)` over types on which one of `groups` may be.
template <typename Cost>
double least(const Problem& problem, const std::vector<int>& groups, Cost cost) {
  double found = kInfinite;
  for (int type = 0; type < static_cast<int>(problem.types.size()); ++type) {
    const auto runs = [&](int group) { return supports(problem, group, type); };
    if (std::ranges::any_of(groups, runs)) found = std::min(found, cost(type));
  }
  return found < kInfinite ? found : 0;
}

void put_values(const Problem& problem, LatencyModel& model) {
  Arcs reads, writes;
  for (const auto& value : problem.values) {
    const int v = model.values++;
    auto readers = value.consumers;
    std::ranges::sort(readers);
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    model.producer.push_back(value.producer);
    model.consumers.add(readers);
    writes.emplace_back(value.producer, v);
    for (const int reader : readers) reads.emplace_back(reader, v);
    for (int t = 0; t < model.types; ++t) {
      const bool pays = problem.types[at(t)].pays_transfers && !readers.empty();
      const auto in = [&](int from) { return transfer_time(problem, value, from, t); };
      const auto out = [&](int to) { return transfer_time(problem, value, t, to); };
      model.receive.push_back(pays ? least(problem, {value.producer}, in) : 0);
      model.send.push_back(pays ? least(problem, readers, out) : 0);
    }
  }
  model.reads = distinct_lists_of(model.groups, std::move(reads));
  model.writes = distinct_lists_of(model.groups, std::move(writes));
}

/// One pool for each capped type, or one for all.
void put_pools(const Problem& problem, std::vector<int>& pool_of_type, LatencyModel& model) {
  pool_of_type.assign(problem.types.size(), -1);
  double product = 1;
  for (const auto& type : problem.types) {
    product *= static_cast<double>(type.devices.size()) + 1;
  }
  const auto pairs = static_cast<double>(problem.order.size() + problem.groups.size());
  const bool merged = product > kMostCodes || product * pairs > kMostBounds;
  for (std::size_t t = 0; t < problem.types.size(); ++t) {
    if (problem.types[t].devices.empty()) continue;
    if (!merged || model.pools.empty()) model.pools.emplace_back();
    pool_of_type[t] = static_cast<int>(model.pools.size()) - 1;
    model.pools.back().count += static_cast<int>(problem.types[t].devices.size());
  }
  for (auto& pool : model.pools) {
    pool.stride = model.codes;
    model.codes *= pool.count + 1;
  }
}

void put_modes(const Problem& problem, LatencyModel& model) {
  std::vector<int> pool_of_type;
  put_pools(problem, pool_of_type, model);
  model.core_time.assign(at(model.groups), kInfinite);
  for (const auto& group : problem.groups) model.memory.push_back(group.memory);
  for (std::size_t m = 0; m < problem.modes.size(); ++m) {
    const auto& mode = problem.modes[m];
    const auto& type = problem.types[at(mode.type)];
    if (type.unlimited) {
      for (std::size_t g = 0; g < problem.groups.size(); ++g) {
        if (problem.groups[g].memory > type.memory) continue;
        model.core_time[g] = std::min(model.core_time[g], mode.launch + problem.groups[g].time[m]);
      }
    } else if (!type.devices.empty()) {
      LatencyModel::CallMode call;
      call.mode = static_cast<int>(m);
      call.type = mode.type;
      call.pool = pool_of_type[at(mode.type)];
      call.devices = static_cast<int>(type.devices.size());
      call.launch = mode.launch;
      call.memory = type.memory;
      for (const auto& group : problem.groups) call.time.push_back(group.time[m]);
      model.calls.push_back(std::move(call));
    }
  }
}

/// Whether the groups of a set may be one block: see LatencyModel.
bool may_join(const LatencyModel& model, const BitRows& leads_to, const std::vector<int>& set) {
  const std::set<int> own(set.begin(), set.end());
  const auto leaves = [&](const Lists& lists, int group) {
    return std::ranges::any_of(lists[group], [&](int other) { return !own.contains(other); });
  };
  const auto on_core = [&](int group) { return model.core_time[at(group)] < kInfinite; };
  if (!std::ranges::all_of(set, on_core)) return true;
  for (const int in : set) {
    if (!leaves(model.earlier, in)) continue;
    for (const int out : set) {
      if (leaves(model.later, out) && !leads_to.has(in, out)) return false;
    }
  }
  return true;
}

/// Joins sets to blocks, and numbers both.
void put_blocks(const Problem& problem, LatencyModel& model) {
  const auto joined = join_sets(problem);
  std::vector<std::vector<int>> sets(problem.groups.size());
  for (int g = 0; g < model.groups; ++g) sets[at(joined[at(g)])].push_back(g);
  std::erase_if(sets, [](const auto& set) { return set.empty(); });
  for (const auto& set : sets) model.clusters.add(set);
  std::erase_if(sets, [](const auto& set) { return set.size() < 2; });
  Arcs arcs = problem.order;
  if (!sets.empty()) {
    const auto leads_to = descendants(model);
    for (const auto& set : sets) {
      if (!may_join(model, leads_to, set)) continue;
      for (std::size_t i = 0; i < set.size(); ++i) {
        arcs.emplace_back(set[i], set[(i + 1) % set.size()]);  // A circle: one component.
      }
    }
  }
  model.block_of = strong_components(model.groups, arcs);
  model.blocks = 1 + *std::ranges::max_element(model.block_of);
  std::vector<std::vector<int>> members(at(model.blocks));
  for (const int g : model.topological) members[at(model.block_of[at(g)])].push_back(g);
  for (const auto& list : members) model.members.add(list);
  Arcs between;
  for (const auto& [from, to] : problem.order) {
    const int a = model.block_of[at(from)], b = model.block_of[at(to)];
    if (a != b) between.emplace_back(a, b);
  }
  model.before = distinct_lists_of(model.blocks, turned(between));
  model.after = distinct_lists_of(model.blocks, std::move(between));
  model.set_of.assign(at(model.blocks), -1);
  for (const auto& set : sets) {
    std::set<int> blocks;
    for (const int g : set) blocks.insert(model.block_of[at(g)]);
    if (blocks.size() < 2) continue;
    for (const int block : blocks) model.set_of[at(block)] = model.set_blocks.size();
    model.set_blocks.add(std::vector<int>(blocks.begin(), blocks.end()));
  }
}

}  // namespace

LatencyModel::LatencyModel(const Problem& problem)
    : groups(static_cast<int>(problem.groups.size())),
      types(static_cast<int>(problem.types.size())) {
  put_order(problem, *this);
  put_values(problem, *this);
  put_modes(problem, *this);
  put_blocks(problem, *this);
}

bool LatencyModel::uses_no_more(int code, int other) const {
  return std::ranges::all_of(pools, [&](const Pool& pool) {
    return code / pool.stride % (pool.count + 1) <= other / pool.stride % (pool.count + 1);
  });
}

BitRows ancestors(const LatencyModel& model) {
  BitRows rows(model.groups, model.groups);
  for (const int g : model.topological) {
    rows.add(g, g);
    for (const int from : model.earlier[g]) rows.add_row(g, rows, from);
  }
  return rows;
}

BitRows descendants(const LatencyModel& model) {
  BitRows rows(model.groups, model.groups);
  for (auto g = model.topological.rbegin(); g != model.topological.rend(); ++g) {
    rows.add(*g, *g);
    for (const int to : model.later[*g]) rows.add_row(*g, rows, to);
  }
  return rows;
}

}  // namespace penstock::planner
