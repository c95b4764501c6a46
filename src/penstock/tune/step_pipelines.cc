// Pipelines: planned by measured nodes, run, and planned anew by what their stages really took.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "penstock/device/cgroup.h"
#include "penstock/session/state_loops.h"
#include "penstock/tune/plans.h"
#include "penstock/tune/steps.h"

namespace penstock::tune {
namespace {

constexpr int kMostCorrections = 4;  ///< Plans made of corrected costs.

/// What all plans of one cover are made with.
struct Ground {
  const Cover& cover;
  const Place& place;
  cost::Figures figures;
  std::vector<std::vector<graph::NodeId>> loops;  ///< state_loops()
};

/// Plans of the cover by the seconds of its nodes, each with costs corrected by what the last one's
/// stages really took, until they repeat themselves. \returns the best of them that has several
/// stages; none: none runs.
Proposals::Place run_stages(Context& context, Proposals& proposals, const Ground& ground,
                            std::vector<double> seconds, bool replicas) {
  const auto& entries = context.contest->entries();
  const auto memory =
      replicas ? host_memory(device::available_memory(), context.copies) : HostMemory{};
  std::set<std::size_t> seen;
  std::optional<std::size_t> best;
  for (int round = 0; round <= kMostCorrections && !context.out_of_time(); ++round) {
    context.say("planning stages");
    const Measurements measurements{seconds, ground.figures, ground.loops, memory};
    const auto planned =
        pipelined(ground.place, ground.cover, measurements, replicas, kSearchSeconds);
    if (!planned && planned.error().code == Code::kFailedPrecondition) break;  // Memory.
    if (!planned) return planned.error();
    const auto& split = planned->split;
    context.say("trying the stages");
    PENSTOCK_TRY(const auto place,
                 proposals.enter({name_of(ground.cover, split, entries.size()), split}));
    if (!place || !entries[*place].way.failure.empty() || !seen.insert(*place).second) break;
    const bool better = !best || entries[*place].score > entries[*best].score;
    if (better && split.stages.size() > 1) best = place;
    correct(seconds, ground.place, split, entries[*place].stage_seconds);
  }
  return best;
}

/// The pipeline's own work is in the figure, the way of the word is not.
cost::Figures figures_of(Context& context) {
  cost::Figures figures;
  const auto link = context.profiler->link(context.devices[0], context.devices[1]);
  if (link && *link) {
    figures.seconds_per_transfer = std::max(figures.seconds_per_transfer, (*link)->latency_seconds);
  }
  return figures;
}

}  // namespace

Status try_pipelines(Context& context, Proposals& proposals) {
  if (context.devices.size() == 1 || context.graph.nodes.size() < 2 ||
      context.options.goal == Goal::kLatency) {
    return {};
  }
  const Cover cover = proposals.best_cover();
  if (cover.empty()) return {};
  auto& parts = *context.parts;
  parts.measure_until(context.budget.at(context.latest_start(1)));
  const auto figures = figures_of(context);
  Place place{context.graph, context.devices};
  PENSTOCK_TRY(place.paces, parts.paces_of(cover, parts.node_seconds(cover)));
  Ground ground{cover, place, figures, state_loops(context.graph, context.options.states)};
  const auto& entries = context.contest->entries();
  std::optional<std::size_t> best;
  bool with_replicas = false;
  for (const bool replicas : {false, true}) {
    PENSTOCK_TRY(const auto found,
                 run_stages(context, proposals, ground, parts.node_seconds(cover), replicas));
    if (!found || (best && entries[*found].score <= entries[*best].score)) continue;
    best = found;
    with_replicas = replicas;
  }
  if (!best || !context.contest->is_near_best(*best) || context.out_of_time()) return {};
  context.say("trying other backends for the stages");
  PENSTOCK_TRY(const auto faster, parts.faster_stages(entries[*best].contestant.split.stages));
  if (!faster) return {};
  const auto joined = merge_neighbours(*faster);  // The next plan may cut elsewhere.
  const auto done =
      run_stages(context, proposals, {joined, place, figures, std::move(ground.loops)},
                 parts.node_seconds(*faster), with_replicas);
  return done ? Status() : done.error();
}

}  // namespace penstock::tune
