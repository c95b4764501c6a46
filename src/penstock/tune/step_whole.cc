// Whole networks: every way is screened in a process of its own, then the fastest run first.
#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "penstock/tune/steps.h"

namespace penstock::tune {
namespace {

/// Seconds of a frame, within the time that there is to try it, or in any case. None: it fails, or
/// there is no time.
Result<std::optional<double>> try_within_budget(Context& context, const Proposals& proposals,
                                                const Way& way, bool on_each, bool in_any_case) {
  const double before = context.spent();
  auto& parts = *context.parts;
  if (!in_any_case) {
    parts.measure_until(context.shortlist.trial_until(
        way.backend, context.first_plan_seconds() + context.simple->start_seconds()));
  }
  const auto& ways = context.ways;
  const auto number = static_cast<std::size_t>(std::ranges::find(ways, way) - ways.begin());
  auto seconds = on_each ? parts.whole_seconds(number) : parts.wide_seconds(number);
  const bool cut_off = parts.over() && !context.options.stopped();
  if (seconds && !*seconds && cut_off && parts.takes_whole(number)) {
    const auto cover = whole_cover(context.graph, way);
    context.shortlist.leave_out(proposals.whole(context.graph, cover, on_each).name);
  }
  context.shortlist.tried(way.backend, context.spent() - before);
  parts.measure_in_any_case();
  return seconds;
}

/// All that run, the fastest first. The engine that has run the network as the reference has its
/// turn first: where there is no time for all, it is there.
Result<std::vector<WholeNetwork>> screen(Context& context, const Proposals& proposals) {
  std::vector<WholeNetwork> found;
  auto order = context.ways;
  std::ranges::stable_partition(order, [](const Way& way) { return way.backend == kSureEngine; });
  for (const auto& way : order) {
    context.say("trying " + way.name());
    const auto cover = whole_cover(context.graph, way);
    PENSTOCK_TRY(const auto seconds,
                 try_within_budget(context, proposals, way, true, found.empty()));
    if (seconds && context.fits_on_each(cover)) {
      found.push_back({cover, true, context.rate(*seconds, true)});
    }
    if (context.devices.size() == 1) continue;
    PENSTOCK_TRY(const auto wide, try_within_budget(context, proposals, way, false, found.empty()));
    if (wide) found.push_back({cover, false, context.rate(*wide, false)});
  }
  std::ranges::stable_sort(found, std::greater{}, &WholeNetwork::rate);
  return found;
}

}  // namespace

Status try_whole_networks(Context& context, Proposals& proposals) {
  context.parts->measure_in_any_case();
  PENSTOCK_TRY(const auto networks, screen(context, proposals));
  const auto& contest = *context.contest;
  std::optional<WholeNetwork> best;
  for (const auto& network : networks) {
    if (contest.best() && !proposals.has_room_for(network.cover)) {
      context.shortlist.leave_out(
          proposals.whole(context.graph, network.cover, network.on_each).name);
      continue;
    }
    PENSTOCK_TRY(const auto place, proposals.enter_whole(network.cover, network.on_each));
    if (place && contest.best() == place) best = network;
  }
  if (best) PENSTOCK_CHECK_OK(proposals.enter_as_is(*best));
  return {};
}

}  // namespace penstock::tune
