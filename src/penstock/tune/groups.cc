// Makes a problem of group costs, links and memory, and solves it for each use of the CPUs.
#include "penstock/tune/groups.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "penstock/planner/choose.h"
#include "penstock/session/plan_kinds.h"

namespace penstock::tune {
namespace {

using planner::Problem;

double sum_of(const std::vector<double>& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

/// Bytes of weights that a device of that kind may hold, where its like take all CPUs in use.
double memory_of(const graph::Graph& graph, const device::Groupings& groupings,
                 const device::GroupKind& kind, double host_bytes) {
  const auto cpus = groupings.uses[kind.use].cpus.size();
  const auto width = static_cast<std::size_t>(kind.width);
  return memory_share(graph, (cpus + width - 1) / width, host_bytes);
}

/// By kind of group; where nothing was measured as by the figures alone.
std::vector<std::vector<planner::Link>> links_of(const HandingOver& handing_over,
                                                 std::size_t kinds) {
  std::vector links(kinds, std::vector<planner::Link>(kinds));
  double fastest = 0;
  for (const auto& row : handing_over.links) {
    for (const auto& link : row) fastest = std::max(fastest, link ? link->bytes_per_second : 0);
  }
  for (std::size_t from = 0; from < handing_over.links.size(); ++from) {
    for (std::size_t to = 0; to < kinds; ++to) {
      const auto& link = handing_over.links[from][to];
      if (!link) continue;
      auto& made = links[from][to];
      const double own = handing_over.figures.seconds_per_transfer;  // Of the pipeline.
      made.latency = std::max(link->latency_seconds - own, 0.0);
      if (link->bytes_per_second <= 0 || link->bytes_per_second >= fastest) continue;
      made.bandwidth = 1 / (1 / link->bytes_per_second - 1 / fastest);
    }
  }
  return links;
}

/// Seconds of the cover's nodes on each kind: a device's time is shared among them.
KindMode mode_of(const GroupCosts& costs) {
  KindMode mode{backends_in(costs.cover), {}};
  for (const double whole : costs.kind_seconds) {
    const double pace = whole / sum_of(costs.node_seconds);
    auto& seconds = mode.seconds.emplace_back(costs.node_seconds);
    for (double& time : seconds) time = std::isfinite(pace) ? time * pace : planner::kInfinite;
  }
  return mode;
}

/// A type for each kind of group, with a mode for each cover; their devices' shares of the memory.
Result<Problem> problem_of(const graph::Graph& graph, const device::Groupings& groupings,
                           const std::vector<GroupCosts>& costs, const HandingOver& handing_over,
                           double host_bytes) {
  cost::GraphProblemOptions options;
  options.figures = handing_over.figures;
  std::vector<KindMode> modes;
  for (const auto& cost : costs) modes.push_back(mode_of(cost));
  std::vector<double> memories;
  for (const auto& kind : groupings.kinds) {
    memories.push_back(memory_of(graph, groupings, kind, host_bytes));
  }
  PENSTOCK_TRY(auto problem, problem_of_kinds(graph, groupings, options, modes, memories));
  problem.links = links_of(handing_over, problem.types.size());
  return problem;
}

/// The groupings of one use, as indices.
std::vector<std::size_t> of_use(const device::Groupings& groupings, std::size_t use) {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < groupings.counts.size(); ++i) {
    for (std::size_t kind = 0; kind < groupings.kinds.size(); ++kind) {
      if (groupings.counts[i][kind] == 0) continue;
      if (groupings.kinds[kind].use == use) indices.push_back(i);
      break;
    }
  }
  return indices;
}

/// The covers of the modes of the stages; modes are those of all covers for each type.
Result<Grouped> grouped_of(planner::Choice choice, const device::Grouping& grouping,
                           const std::vector<GroupCosts>& costs) {
  const auto planned = planned_on(std::move(choice), grouping);
  Grouped made;
  made.period_seconds = planned.answer.evaluation.period;
  made.grouping = planned.grouping;
  PENSTOCK_TRY(made.split, chosen_stages_of(planned));
  Cover used;
  for (std::size_t i = 0; i < made.split.stages.size(); ++i) {
    auto& stage = made.split.stages[i];
    const auto mode = static_cast<std::size_t>(planned.answer.split.stages[i].mode);
    std::ranges::sort(stage.nodes);
    stage.parts = parts_within(costs[mode % costs.size()].cover, stage.nodes);
    used.insert(used.end(), stage.parts.begin(), stage.parts.end());
  }
  made.covers = backends_in(used);
  return made;
}

/// None: its devices cannot run the network, or hold it.
Result<std::optional<Grouped>> best_of_use(const Problem& problem,
                                           const device::Groupings& groupings, std::size_t use,
                                           const std::vector<GroupCosts>& costs,
                                           const planner::Options& options) {
  const auto indices = of_use(groupings, use);
  std::vector<planner::Counts> counts;
  for (const auto index : indices) counts.push_back(groupings.counts[index]);
  auto choice = planner::choose(problem, counts, options);
  if (!choice) return std::optional<Grouped>();
  const auto& grouping = groupings.groupings[indices[choice->grouping]];
  PENSTOCK_TRY(auto made, grouped_of(*std::move(choice), grouping, costs));
  return std::optional(std::move(made));
}

}  // namespace

HandingOver links_between(const device::Groupings& groupings, const MeasureLink& measure,
                          std::vector<std::string>& notes) {
  const auto& kinds = groupings.kinds;
  HandingOver made;
  made.links.assign(kinds.size(), std::vector<std::optional<cost::Link>>(kinds.size()));
  std::string first;
  int failed = 0;
  for (std::size_t a = 0; a < kinds.size(); ++a) {
    const auto& from = kinds[a].devices.front();
    for (std::size_t b = a; b < kinds.size() && kinds[b].use == kinds[a].use; ++b) {
      const auto beside = std::ranges::find_if(kinds[b].devices, [&](const device::Device& to) {
        return static_cast<bool>(device::check_disjoint({from, to}));
      });
      if (beside == kinds[b].devices.end()) continue;
      const auto link = measure(from, *beside);
      if (link) {
        made.links[a][b] = made.links[b][a] = *link;
      } else if (failed++ == 0) {
        first = concat(device::to_string(from), " to ", device::to_string(*beside), ": ",
                       link.error().message());
      }
    }
  }
  if (failed > 0) {
    notes.push_back(concat("of the links between groups of CPUs ", failed,
                           " could not be measured, and count as the fastest: ", first));
  }
  return made;
}

Result<std::vector<Grouped>> grouped(const graph::Graph& graph, const device::Groupings& groupings,
                                     const std::vector<GroupCosts>& costs,
                                     const HandingOver& handing_over, const HostMemory& memory,
                                     double search_seconds) {
  std::vector<Grouped> plans;
  if (costs.empty()) return plans;
  PENSTOCK_TRY(const auto free, problem_of(graph, groupings, costs, handing_over, kUnlimited));
  PENSTOCK_TRY(const auto shared, problem_of(graph, groupings, costs, handing_over, memory.bytes));
  planner::Options options;
  options.replicas = true;
  options.seconds = search_seconds / static_cast<double>(groupings.uses.size());
  for (std::size_t use = 0; use < groupings.uses.size(); ++use) {
    for (const auto* problem : {&free, &shared}) {
      PENSTOCK_TRY(auto made, best_of_use(*problem, groupings, use, costs, options));
      if (!made) continue;  // What its devices cannot run, others may.
      if (memory.copies.bytes_of(graph, made->split) > memory.bytes) continue;
      plans.push_back(*std::move(made));
      break;
    }
  }
  std::ranges::stable_sort(plans, {}, &Grouped::period_seconds);
  return plans;
}

}  // namespace penstock::tune
