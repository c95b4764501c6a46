// Groups of CPUs: costs on each kind and links between them, then the best plan of each grouping.
#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "penstock/base/words.h"
#include "penstock/device/cgroup.h"
#include "penstock/device/grouping.h"
#include "penstock/tune/groups.h"
#include "penstock/tune/steps.h"

namespace penstock::tune {
namespace {

constexpr std::size_t kMostGroupings = 256;  ///< Of each use of the CPUs.
constexpr std::size_t kGroupWays = 2;        ///< Whole networks that groups of CPUs are tried with.
constexpr int kGroupedPlans = 3;             ///< Plans on groups of CPUs that are run.
constexpr double kGroupShare = 0.3;          ///< Of the time that is left, to measure on groups.

/// What the fastest whole networks take on each kind of group.
Result<std::vector<GroupCosts>> group_costs(Context& context, const Proposals& proposals,
                                            const device::Groupings& groupings) {
  std::vector<const Entry*> fastest;
  for (const auto place : proposals.singles()) {
    fastest.push_back(&context.contest->entries()[place]);
  }
  std::ranges::stable_sort(fastest, std::greater{}, &Entry::score);
  fastest.resize(std::min(fastest.size(), kGroupWays));
  std::vector<GroupCosts> costs;
  for (const auto* entry : fastest) {
    const auto& cover = entry->contestant.split.stages.front().parts;
    costs.push_back({cover, context.parts->node_seconds(cover), {}});
  }
  // One frame alone meets no other on its way.
  const bool alone = context.options.goal == Goal::kLatency;
  for (const auto& kind : groupings.kinds) {
    const auto alike = alone ? std::vector{kind.devices.front()} : kind.devices;
    for (auto& cost : costs) {
      PENSTOCK_TRY(const auto seconds, context.parts->group_seconds(cost.cover, alike));
      cost.kind_seconds.push_back(seconds.value_or(collage::kInfinite));
    }
  }
  return costs;
}

}  // namespace

Status try_groupings(Context& context, Proposals& proposals) {
  constexpr std::size_t kUsual = 2;
  const auto& options = context.options;
  if (!options.devices.empty() || context.devices.size() == 1) return {};
  const auto groupings = device::groupings_of(context.profiler->topology(), kMostGroupings);
  if (groupings.groupings.size() <= kUsual || proposals.singles().empty()) return {};
  if (context.out_of_time()) return {};
  context.say("measuring on groups of CPUs");
  const double left = context.latest_start(kGroupedPlans) - context.spent();
  context.parts->measure_until(context.budget.at(context.spent() + kGroupShare * left));
  PENSTOCK_TRY(const auto costs, group_costs(context, proposals, groupings));
  const auto link = [&](const device::Device& from, const device::Device& to) {
    return context.profiler->link(from, to);
  };
  const auto links = links_between(groupings, link, context.report.notes);
  const GroupSearch search{.latency = options.goal == Goal::kLatency,
                           .loops = state_loops(context.graph, options.states),
                           .memory = host_memory(device::available_memory(), context.copies),
                           .seconds = kSearchSeconds};
  PENSTOCK_TRY(const auto plans, grouped(context.graph, groupings, costs, links, search));
  context.parts->measure_until(context.budget.at(context.latest_start(1)));
  int run = 0;
  for (const auto& plan : plans) {
    if (context.out_of_time() || run++ == kGroupedPlans) break;
    context.say(concat("trying ", plan.grouping));
    const auto stages = plan.split.stages.size();
    PENSTOCK_CHECK_OK(proposals.enter(
        {concat(plan.covers, " in ", counted(stages, "stage"), " on ", plan.grouping),
         plan.split}));
  }
  return {};
}

}  // namespace penstock::tune
