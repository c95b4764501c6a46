// Accelerators: the whole network there; then stages there and on CPUs, planned over both.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "penstock/base/words.h"
#include "penstock/device/cgroup.h"
#include "penstock/planner/solve.h"
#include "penstock/session/plan_model.h"
#include "penstock/session/state_loops.h"
#include "penstock/tune/plans.h"
#include "penstock/tune/steps.h"

namespace penstock::tune {
namespace {

constexpr std::size_t kMostNodesPlanned = 4096;  ///< That are planned for one by one.
constexpr int kMostPlans = 5;         ///< Made of costs that the one before has corrected.
constexpr double kPieceShare = 0.3;   ///< Of the time that is left, to measure pieces there.
constexpr int kPlansAfterPieces = 4;  ///< For which measuring them leaves time.

/// What plans over CPUs and accelerators are made of.
struct Sides {
  const Cover& cover;  ///< On CPUs.
  const Place& place;
  cost::Figures figures;
  std::vector<std::vector<graph::NodeId>> loops;
  HostMemory memory;
  std::vector<double> seconds;                      ///< Of the cover's nodes, on CPUs.
  std::vector<cost::Beside> beside;                 ///< With the seconds of nodes there.
  std::vector<std::pair<Accelerators*, Way>> ways;  ///< Of each of `beside`.
};

std::string places_text(const std::vector<device::Device>& devices) {
  return join(devices, ", ", [](const auto& device) { return device::to_string(device); });
}

/// On one of those that are alike, and on each of them.
Status enter_whole(Context& context, Proposals& proposals, const Accelerators& alike,
                   const Way& way) {
  const auto cover = whole_cover(context.graph, way);
  const bool several = alike.devices.size() > 1 && context.options.states.empty();
  for (const bool all : {false, true}) {
    if (all && !several) break;
    const auto devices = all ? alike.devices : std::vector{alike.devices.front()};
    PENSTOCK_CHECK_OK(proposals.enter({concat(way.name(), " on ", places_text(devices)),
                                       on_each(context.graph, cover, devices)}));
  }
  return {};
}

Status measure_pieces(Context& context, Accelerators& alike) {
  const double left = context.contest->best()
                          ? context.latest_start(kPlansAfterPieces) - context.spent()
                          : context.options.budget_seconds - context.spent();
  alike.parts->measure_at_most(context.options.most_parts);
  alike.parts->measure_until(context.budget.at(context.spent() + kPieceShare * left));
  for (std::size_t way = 0; way < alike.ways.size(); ++way) {
    PENSTOCK_CHECK_OK(alike.parts->measure_largest(way));
  }
  return alike.parts->measure_pieces();
}

double known_work(const Parts& parts, const std::vector<double>& seconds) {
  double work = 0;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (std::isfinite(seconds[i])) work += parts.analytic_seconds()[i];
  }
  return work;
}

/// The way that takes the most of the network, by the analytic model; none takes any.
std::optional<std::size_t> widest_way(const Accelerators& alike) {
  std::optional<std::size_t> widest;
  double most = 0;
  for (std::size_t way = 0; way < alike.ways.size(); ++way) {
    const double work = known_work(*alike.parts, alike.parts->claimed_seconds(way));
    if (work <= most) continue;
    most = work;
    widest = way;
  }
  return widest;
}

/// None: it was not measured.
Result<std::optional<planner::Link>> copies(Context& context, const Accelerators& alike,
                                            const Way& way, bool to_host) {
  const auto found = context.profiler->copies(way.backend, alike.devices.front(), to_host);
  if (!found) return found.error();
  if (!*found) return std::optional<planner::Link>();
  return std::optional(planner::Link{(*found)->latency_seconds, (*found)->bytes_per_second});
}

/// Adds what the accelerators take, where anything is known of them.
Status add_beside(Context& context, Accelerators& alike, Sides& sides) {
  const auto way = widest_way(alike);
  if (!way) return {};
  cost::Beside made;
  made.devices.name = alike.name.empty() ? "accelerator" : alike.name;
  made.devices.devices = alike.devices;
  made.devices.costs.node_seconds = alike.parts->claimed_seconds(*way);
  // Lanes compute while the thread that serves them copies.
  made.devices.overlap = planner::Overlap::kHalfDuplex;
  const auto& chosen = alike.ways[*way];
  PENSTOCK_TRY(const auto backend, context.backends.find(chosen.backend));
  if (backend->memory(alike.devices.front())) {
    PENSTOCK_TRY(const auto there, copies(context, alike, chosen, false));
    PENSTOCK_TRY(const auto back, copies(context, alike, chosen, true));
    if (!there || !back) return {};  // The time was up.
    made.there = *there;
    made.back = *back;
  }
  sides.beside.push_back(std::move(made));
  sides.ways.emplace_back(&alike, chosen);
  return {};
}

/// Among Sides::ways; none: the stage stands on CPUs.
std::optional<std::size_t> side_of(const Sides& sides, const partition::ChosenStage& stage) {
  for (std::size_t i = 0; i < sides.ways.size(); ++i) {
    const auto& devices = sides.ways[i].first->devices;
    if (std::ranges::find(devices, stage.devices.front()) != devices.end()) return i;
  }
  return std::nullopt;
}

/// Of the answer, each stage by what runs it where it stands.
Result<partition::ChosenStages> stages_of(const PlannedModel& planned, const Sides& sides) {
  PENSTOCK_TRY(auto split, chosen_stages_of(planned));
  for (auto& stage : split.stages) {
    std::ranges::sort(stage.nodes);
    if (const auto side = side_of(sides, stage)) {
      const auto& way = sides.ways[*side].second;
      stage.parts = {{way.backend, way.options, stage.nodes}};
    } else {
      stage.parts = parts_within(sides.cover, stage.nodes);
    }
  }
  return split;
}

/// What plans may have.
struct Freedom {
  bool replicas = false;
  int segments = 1;
  double device_memory = kUnlimited;  ///< Bytes of weights on each of the CPUs' devices.
};

/// None: there is none, or no time to find it.
Result<std::optional<PlannedModel>> best_with(const Freedom& freedom, const graph::Graph& graph,
                                              const Sides& sides, planner::Goal goal) {
  const Measurements measurements{sides.seconds, sides.figures, sides.loops, sides.memory};
  const auto costs = costs_for(sides.place, measurements, freedom.device_memory, true);
  PENSTOCK_TRY(const auto site, cost::site_beside(sides.place.devices, costs, sides.beside));
  PENSTOCK_TRY(auto problem, cost::problem_of(graph, site, costs));
  planner::Options search;
  search.goal = goal;
  search.replicas = freedom.replicas;
  search.segments_per_device = freedom.segments;
  search.seconds = kSearchSeconds / 2;
  auto answer = planner::solve_unexplained(problem, search);
  if (!answer && answer.error().code != Code::kFailedPrecondition &&
      answer.error().code != Code::kDeadlineExceeded) {
    return std::move(answer).error();
  }
  if (!answer) return std::optional<PlannedModel>();
  return std::optional(PlannedModel{std::move(problem), *std::move(answer), {}});
}

/// Where the host does not hold the best, the best where each of its devices has a share of the
/// memory. None: as above, or the host does not hold that either.
Result<std::optional<PlannedModel>> best_held(Freedom freedom, const graph::Graph& graph,
                                              const Sides& sides, planner::Goal goal) {
  const auto& memory = sides.memory;
  for (const double device_memory :
       {kUnlimited, memory_share(graph, sides.place.devices.size(), memory.bytes)}) {
    freedom.device_memory = device_memory;
    PENSTOCK_TRY(auto planned, best_with(freedom, graph, sides, goal));
    if (!planned) continue;
    PENSTOCK_TRY(const auto split, stages_of(*planned, sides));
    if (memory.copies.bytes_of(graph, split) <= memory.bytes) return planned;
  }
  return std::optional<PlannedModel>();
}

/// The planner's best answer for the goal: a stage a device, stages on several, or two stages on
/// each, as where one CPU does what is before the accelerator and what is behind it.
Result<std::optional<PlannedModel>> best_plan(const graph::Graph& graph, const Sides& sides,
                                              Goal goal) {
  std::optional<PlannedModel> best;
  const bool latency = goal == Goal::kLatency;
  for (const auto& freedom : {Freedom{}, Freedom{.replicas = true}, Freedom{.segments = 2}}) {
    if (latency && freedom.replicas) continue;  // They make no frame faster.
    PENSTOCK_TRY(auto planned,
                 best_held(freedom, graph, sides,
                           latency ? planner::Goal::kLatency : planner::Goal::kThroughput));
    if (!planned || (best && planned->answer.cost >= best->answer.cost)) continue;
    best = std::move(planned);
  }
  return best;
}

/// By what the stages took: on CPUs in the pipeline, on accelerators by themselves, a frame after
/// the other, since a frame's time there has those in it that were ahead.
Status correct_sides(Sides& sides, const partition::ChosenStages& split,
                     std::vector<double> stage_seconds) {
  stage_seconds.resize(split.stages.size());
  for (std::size_t i = 0; i < split.stages.size(); ++i) {
    const auto& stage = split.stages[i];
    const auto side = side_of(sides, stage);
    if (!side) continue;
    stage_seconds[i] = 0;  // Not of the CPUs' costs.
    PENSTOCK_TRY(const auto took, sides.ways[*side].first->parts->chain_seconds(stage.parts));
    auto& seconds = sides.beside[*side].devices.costs.node_seconds;
    double sum = 0;
    for (const auto node : stage.nodes) sum += seconds[graph::index(node)];
    if (!took || !std::isfinite(*took) || sum <= 0 || !std::isfinite(sum)) continue;
    for (const auto node : stage.nodes) seconds[graph::index(node)] *= *took / sum;
  }
  correct(sides.seconds, sides.place, split, stage_seconds);
  return {};
}

bool has_accelerator(const partition::ChosenStages& split, const Sides& sides) {
  return std::ranges::any_of(split.stages,
                             [&](const auto& stage) { return side_of(sides, stage).has_value(); });
}

/// Whether the user's rules let accelerators have what they would get.
bool are_allowed(const partition::ChosenStages& split, const Sides& sides) {
  return std::ranges::all_of(split.stages, [&](const auto& stage) {
    const auto side = side_of(sides, stage);
    return !side || sides.ways[*side].first->parts->allowed(stage.parts.front());
  });
}

std::string name_of_plan(const Context& context, const partition::ChosenStages& split) {
  Cover all;
  std::vector<device::Device> accelerators;
  for (const auto& stage : split.stages) {
    all.insert(all.end(), stage.parts.begin(), stage.parts.end());
    for (const auto& device : stage.devices) {
      if (!device.is_accelerator()) continue;
      if (std::ranges::find(accelerators, device) == accelerators.end())
        accelerators.push_back(device);
    }
  }
  const auto stages = split.stages.size();
  return concat(backends_in(all), " in ", counted(stages, "stage"), " with ",
                places_text(accelerators), ", plan ", context.contest->entries().size());
}

/// Plans with costs corrected by the one before, until they repeat themselves or leave the
/// accelerators out.
Status run_plans(Context& context, Proposals& proposals, Sides& sides) {
  const auto& entries = context.contest->entries();
  std::set<std::size_t> seen;
  for (int round = 0; round < kMostPlans && !context.out_of_time(); ++round) {
    context.say("planning stages beside accelerators");
    PENSTOCK_TRY(const auto planned, best_plan(context.graph, sides, context.options.goal));
    if (!planned) break;
    PENSTOCK_TRY(const auto split, stages_of(*planned, sides));
    if (!has_accelerator(split, sides) || !are_allowed(split, sides)) break;
    PENSTOCK_TRY(const auto place, proposals.enter({name_of_plan(context, split), split}));
    if (!place || !entries[*place].way.failure.empty() || !seen.insert(*place).second) break;
    PENSTOCK_CHECK_OK(correct_sides(sides, split, entries[*place].stage_seconds));
  }
  return {};
}

/// Whether stages are planned over both sides.
bool may_divide(const Context& context) {
  return !context.accelerators.empty() && context.graph.nodes.size() > 1;
}

}  // namespace

Status try_accelerators(Context& context, Proposals& proposals) {
  for (auto& alike : context.accelerators) {
    context.say("trying " + places_text(alike.devices));
    for (std::size_t way = 0; way < alike.ways.size(); ++way) {
      if (!alike.parts->takes_whole(way)) continue;
      if (context.contest->best() && context.out_of_time()) break;
      alike.parts->measure_in_any_case();
      PENSTOCK_TRY(const auto seconds, alike.parts->whole_seconds(way));
      if (seconds) PENSTOCK_CHECK_OK(enter_whole(context, proposals, alike, alike.ways[way]));
    }
    if (context.on_cpus && may_divide(context)) PENSTOCK_CHECK_OK(measure_pieces(context, alike));
    alike.parts->measure_in_any_case();
  }
  return {};
}

Status try_beside_accelerators(Context& context, Proposals& proposals) {
  if (!may_divide(context)) return {};
  if (context.graph.nodes.size() > kMostNodesPlanned) {
    context.report.notes.push_back(
        concat("stages on accelerators: the network has ", context.graph.nodes.size(),
               " nodes, more than ", kMostNodesPlanned, "; it was tried there as a whole alone"));
    return {};
  }
  const Cover cover = proposals.best_cover();
  if (cover.empty()) return {};
  auto& parts = *context.parts;
  parts.measure_until(context.budget.at(context.latest_start(1)));
  Place place{context.graph, context.devices};
  PENSTOCK_TRY(place.paces, parts.paces_of(cover, parts.node_seconds(cover)));
  Sides sides{.cover = cover,
              .place = place,
              .figures = {},
              .loops = state_loops(context.graph, context.options.states),
              .memory = host_memory(device::available_memory(), context.copies),
              .seconds = parts.node_seconds(cover),
              .beside = {},
              .ways = {}};
  for (auto& alike : context.accelerators) PENSTOCK_CHECK_OK(add_beside(context, alike, sides));
  return sides.beside.empty() ? Status() : run_plans(context, proposals, sides);
}

}  // namespace penstock::tune
