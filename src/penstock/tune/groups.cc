// Makes a problem of group costs, links and memory, and solves it for each use of the CPUs.
#include "penstock/tune/groups.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
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
                           const GroupSearch& search, double host_bytes) {
  cost::GraphProblemOptions options;
  options.together = search.loops;
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
  made.latency_seconds = planned.answer.evaluation.latency;
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

/// A problem, and the groupings whose devices it is asked for.
struct Question {
  Problem problem;
  std::vector<planner::Counts> counts;
  std::vector<std::size_t> groupings;  ///< That the counts are of.
};

Question question_of(Problem problem, const device::Groupings& groupings, std::size_t use) {
  Question made{std::move(problem), {}, of_use(groupings, use)};
  for (const auto index : made.groupings) made.counts.push_back(groupings.counts[index]);
  return made;
}

/// The groups of these nodes.
std::set<int> groups_of(const Problem& problem,
                        const std::vector<std::vector<graph::NodeId>>& loops) {
  std::set<int> nodes, groups;
  for (const auto& loop : loops) {
    for (const auto node : loop) nodes.insert(static_cast<int>(graph::index(node)));
  }
  for (std::size_t g = 0; g < problem.groups.size(); ++g) {
    const auto& of = problem.groups[g].nodes;
    const bool looped = std::ranges::any_of(of, [&](int node) { return nodes.contains(node); });
    if (looped) groups.insert(static_cast<int>(g));
  }
  return groups;
}

/// What a device of a type takes for all loops at least.
double loop_seconds(const Problem& problem, std::size_t type, const std::set<int>& loops) {
  double least = planner::kInfinite;
  for (std::size_t m = 0; m < problem.modes.size(); ++m) {
    if (problem.modes[m].type != static_cast<int>(type)) continue;
    double sum = 0;
    for (const int g : loops) sum += problem.groups[static_cast<std::size_t>(g)].time[m];
    least = std::min(least, sum);
  }
  return least;
}

/// The modes of a problem that has a type more, the home of the loops, behind one of the types.
void put_home_modes(Question& made, const Problem& from, std::size_t kind,
                    const std::set<int>& loops) {
  auto& problem = made.problem;
  problem.modes.clear();
  for (auto& group : problem.groups) group.time.clear();
  for (std::size_t type = 0; type < problem.types.size(); ++type) {
    const bool is_home = type == kind + 1;
    for (std::size_t m = 0; m < from.modes.size(); ++m) {
      if (from.modes[m].type != static_cast<int>(type > kind ? type - 1 : type)) continue;
      problem.modes.push_back(from.modes[m]);
      problem.modes.back().type = static_cast<int>(type);
      for (std::size_t g = 0; g < from.groups.size(); ++g) {
        const bool elsewhere = !is_home && loops.contains(static_cast<int>(g));
        problem.groups[g].time.push_back(elsewhere ? planner::kInfinite : from.groups[g].time[m]);
      }
    }
  }
}

/// Of one device of the kind a type is made, which alone runs the loops: they have one instance, as
/// it has no like. It stands behind its kind, as its device is the last of them in a grouping.
Question with_home(const Question& from, std::size_t kind, const std::set<int>& loops) {
  Question made = from;
  auto& problem = made.problem;
  const auto next = static_cast<std::ptrdiff_t>(kind) + 1;
  planner::DeviceType home = problem.types[kind];
  home.name += " of the states";
  home.devices = {home.name};
  problem.types.insert(problem.types.begin() + next, std::move(home));
  for (auto& row : problem.links) row.insert(row.begin() + next, row[kind]);
  if (!problem.links.empty()) {
    problem.links.insert(problem.links.begin() + next, std::vector(problem.links[kind]));
  }
  put_home_modes(made, from.problem, kind, loops);
  made.counts.clear();
  made.groupings.clear();
  for (std::size_t i = 0; i < from.counts.size(); ++i) {
    auto counts = from.counts[i];
    if (counts[kind]-- == 0) continue;
    counts.insert(counts.begin() + next, 1);
    made.counts.push_back(std::move(counts));
    made.groupings.push_back(from.groupings[i]);
  }
  return made;
}

/// What the groupings of one use are searched with.
struct Field {
  const device::Groupings& groupings;
  const std::vector<GroupCosts>& costs;
  const GroupSearch& search;
  const graph::Graph& graph;
  const Question free, shared;  ///< Devices may hold anything, or a share of the memory.
};

/// None: the devices cannot run the network.
Result<std::optional<Grouped>> best_of(const Field& field, const Question& question, bool replicas,
                                       double seconds) {
  planner::Options options;
  options.goal = field.search.latency ? planner::Goal::kLatency : planner::Goal::kThroughput;
  options.replicas = replicas;
  options.seconds = seconds;
  if (question.counts.empty()) return std::optional<Grouped>();
  auto choice = planner::choose(question.problem, question.counts, options);
  if (!choice) return std::optional<Grouped>();  // What its devices cannot run, others may.
  const auto& grouping = field.groupings.groupings[question.groupings[choice->grouping]];
  PENSTOCK_TRY(auto made, grouped_of(*std::move(choice), grouping, field.costs));
  return std::optional(std::move(made));
}

/// With replicas, that the host holds. `make`: from the field's questions the ones to ask.
template <typename Make>
Result<std::optional<Grouped>> best_held(const Field& field, const Make& make, double seconds) {
  const auto& memory = field.search.memory;
  for (const auto* question : {&field.free, &field.shared}) {
    PENSTOCK_TRY(auto made, best_of(field, make(*question), true, seconds));
    if (made && memory.copies.bytes_of(field.graph, made->split) <= memory.bytes) return made;
  }
  return std::optional<Grouped>();
}

double seconds_of(const Grouped& plan, const GroupSearch& search) {
  return search.latency ? plan.latency_seconds : plan.period_seconds;
}

/// Where there are loops: without replicas, then with all loops on a device of each kind in turn,
/// as far as that may be better.
Result<std::optional<Grouped>> best_with_loops(const Field& field, const std::set<int>& loops,
                                               double seconds) {
  PENSTOCK_TRY(auto best, best_of(field, field.free, false, seconds / 2));
  const auto& problem = field.free.problem;
  for (std::size_t kind = 0; kind < problem.types.size(); ++kind) {
    const double least = loop_seconds(problem, kind, loops);
    if (!std::isfinite(least) || (best && least >= best->period_seconds)) continue;
    const auto home = [&](const Question& of) { return with_home(of, kind, loops); };
    const auto share = seconds / 2 / static_cast<double>(problem.types.size());
    PENSTOCK_TRY(auto made, best_held(field, home, share));
    if (made && (!best || made->period_seconds < best->period_seconds)) best = std::move(made);
  }
  return best;
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
                                     const HandingOver& handing_over, const GroupSearch& search) {
  std::vector<Grouped> plans;
  if (costs.empty()) return plans;
  const auto problem = [&](double host_bytes) {
    return problem_of(graph, groupings, costs, handing_over, search, host_bytes);
  };
  PENSTOCK_TRY(const auto free, problem(kUnlimited));
  PENSTOCK_TRY(const auto shared, problem(search.memory.bytes));
  const auto loops = groups_of(free, search.loops);
  const double seconds = search.seconds / static_cast<double>(groupings.uses.size());
  for (std::size_t use = 0; use < groupings.uses.size(); ++use) {
    const Field field{groupings,
                      costs,
                      search,
                      graph,
                      question_of(free, groupings, use),
                      question_of(shared, groupings, use)};
    const auto as_it_is = [](const Question& question) { return question; };
    PENSTOCK_TRY(auto made, search.latency  ? best_of(field, field.free, false, seconds)
                            : loops.empty() ? best_held(field, as_it_is, seconds)
                                            : best_with_loops(field, loops, seconds));
    if (made) plans.push_back(*std::move(made));
  }
  std::ranges::stable_sort(plans, {},
                           [&](const Grouped& plan) { return seconds_of(plan, search); });
  return plans;
}

}  // namespace penstock::tune
