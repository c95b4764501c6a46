// Measures each backend on the hosts, plans with the fastest and with each, and adds simple plans.
#include "penstock/site/candidates.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "penstock/base/words.h"
#include "penstock/hosts/costs.h"
#include "penstock/hosts/stages.h"
#include "penstock/session/plan_model.h"
#include "penstock/session/state_loops.h"
#include "penstock/tune/plans.h"

namespace penstock::site {
namespace {

constexpr std::size_t kMostSingles = 3;  ///< Hosts that run the whole network, each by itself.

/// Why not on all of the hosts; empty: it is.
std::string absent(const tune::Way& way, const hosts::Hosts& hosts, const hosts::Survey& survey) {
  for (std::size_t i = 0; i < hosts.hosts.size(); ++i) {
    const auto& said = survey.hosts[i].worker->description().backends;
    const auto found = std::ranges::find(said, way.backend, &hosts::WorkerBackend::name);
    if (found == said.end()) return concat("host '", hosts.hosts[i].name, "' has it not");
    if (!found->unavailable.empty()) {
      return concat("host '", hosts.hosts[i].name, "': ", found->unavailable);
    }
  }
  return "";
}

double sum_of(const cost::NodeCosts& costs) {
  return std::accumulate(costs.node_seconds.begin(), costs.node_seconds.end(), 0.0);
}

/// Which way is taken for each kind.
using Choice = std::map<std::string, std::size_t>;

Choice fastest(const std::vector<WayCosts>& ways) {
  Choice chosen;
  for (const auto& [kind, ignored] : ways.front().costs) {
    std::vector<double> sums;
    for (const auto& way : ways) sums.push_back(sum_of(way.costs.at(kind)));
    chosen[kind] = static_cast<std::size_t>(std::ranges::min_element(sums) - sums.begin());
  }
  return chosen;
}

class Planning {
 public:
  Planning(const Place& place, const hosts::MeasuredLinks& links, const std::vector<WayCosts>& ways,
           double search_seconds)
      : place_(place), links_(links), ways_(ways), seconds_(search_seconds) {}

  Result<std::vector<Candidate>> run() {
    const auto best = fastest(ways_);
    PENSTOCK_CHECK_OK(plan(best, false));
    const bool whole_frames = place_.options.build.states.empty();
    if (whole_frames) PENSTOCK_CHECK_OK(plan(best, true));
    for (std::size_t way = 0; way < ways_.size() && ways_.size() > 1; ++way) {
      Choice alone = best;
      for (auto& [kind, chosen] : alone) chosen = way;
      if (alone != best) PENSTOCK_CHECK_OK(plan(alone, false));
    }
    PENSTOCK_CHECK_OK(add_simple(best));
    return std::move(made_);
  }

 private:
  [[nodiscard]] const tune::Way& way_on(const Choice& choice, const device::Device& device) const {
    return ways_[choice.at(kind_of(place_.hosts, device))].way;
  }

  /// Each stage in one part, by the way of its first device.
  void name_parts(partition::ChosenStages& stages, const Choice& choice) const {
    for (auto& stage : stages.stages) {
      const auto& way = way_on(choice, stage.devices.front());
      stage.parts = {{way.backend, way.options, stage.nodes}};
    }
  }

  [[nodiscard]] std::string names(const Choice& choice) const {
    std::set<std::string> used;
    for (const auto& [kind, way] : choice) used.insert(ways_[way].way.name());
    return join(used, "+");
  }

  Status plan(const Choice& choice, bool replicas) {
    hosts::Known known{links_, {}};
    hosts::SitePlanOptions options;
    for (const auto& [kind, way] : choice) {
      const auto& costs = ways_[way].costs.at(kind);
      if (kind.empty()) {
        static_cast<cost::NodeCosts&>(options.costs) = costs;
      } else {
        known.costs[kind] = costs;
      }
    }
    const auto& build = place_.options.build;
    options.costs.together = state_loops(place_.graph, build.states);
    options.search.goal =
        build.goal == tune::Goal::kLatency ? planner::Goal::kLatency : planner::Goal::kThroughput;
    options.search.replicas = replicas;
    options.search.seconds = seconds_;
    options.search.interrupted = build.stopped;
    PENSTOCK_TRY(auto found, hosts::plan_over(place_.graph, place_.hosts, known, options));
    PENSTOCK_TRY(auto stages, chosen_stages_of({found.problem, found.answer}));
    name_parts(stages, choice);
    PENSTOCK_CHECK_OK(hosts::equip(stages, place_.hosts, found, place_.options.standby));
    const auto count = stages.stages.size();
    auto name = concat(names(choice), " in ", counted(count, "stage"));
    name += concat(", plan ", made_.size());
    made_.push_back({{std::move(name), std::move(stages)},
                     concat("planned: ", found.answer.evaluation.period * 1e3,
                            " ms a frame, bound by ", planner::to_string(found.answer.binding)),
                     found.answer.lower_bound});
    if (!answer_) answer_ = std::move(found);
    return {};
  }

  /// What a user would try without a plan: the fastest hosts, each by itself, and all side by side.
  Status add_simple(const Choice& choice) {
    std::vector<device::Device> devices;
    for (const auto& host : place_.hosts.hosts) {
      PENSTOCK_TRY(const auto its_own, hosts::devices_of(host));
      devices.insert(devices.end(), its_own.begin(), its_own.end());
    }
    std::ranges::stable_sort(devices, {},
                             [&](const auto& device) { return seconds(choice, device); });
    for (std::size_t i = 0; i < std::min(devices.size(), kMostSingles); ++i) {
      PENSTOCK_CHECK_OK(add_whole(choice, {devices[i]}, device::to_string(devices[i])));
    }
    if (devices.size() < 2 || !place_.options.build.states.empty()) return {};
    return add_whole(choice, devices, "each device");
  }

  /// Of the network: the host's share of its CPUs' time counts.
  [[nodiscard]] double seconds(const Choice& choice, const device::Device& device) const {
    const auto host = std::ranges::find(place_.hosts.hosts, device.host, &hosts::Host::address);
    const auto devices = hosts::devices_of(*host);
    const double share = devices ? hosts::share_of(*host, *devices, device) : 1;
    return sum_of(ways_[choice.at(host->kind)].costs.at(host->kind)) / share;
  }

  Status add_whole(const Choice& choice, const std::vector<device::Device>& devices,
                   const std::string& where) {
    const auto& way = way_on(choice, devices.front());
    auto stages = tune::on_each(place_.graph, tune::whole_cover(place_.graph, way), devices);
    const bool standby = place_.options.standby && devices.size() == 1;
    PENSTOCK_CHECK_OK(hosts::equip(stages, place_.hosts, *answer_, standby));
    made_.push_back({{kSimple + where, std::move(stages)}, "", 0});
    return {};
  }

  const Place& place_;
  const hosts::MeasuredLinks& links_;
  const std::vector<WayCosts>& ways_;
  const double seconds_;
  std::optional<hosts::SiteAnswer> answer_;  ///< The first.
  std::vector<Candidate> made_;
};

}  // namespace

std::string kind_of(const hosts::Hosts& hosts, const device::Device& device) {
  const auto host = std::ranges::find(hosts.hosts, device.host, &hosts::Host::address);
  return host == hosts.hosts.end() ? "" : host->kind;
}

double seconds_of(const WayCosts& ways, const std::string& kind,
                  const std::vector<graph::NodeId>& nodes) {
  const auto& costs = ways.costs.at(kind);
  double sum = 0;
  for (const auto node : nodes) sum += costs.node_seconds[graph::index(node)];
  return sum;
}

Result<std::vector<WayCosts>> measure_ways(const Place& place, hosts::Survey& survey,
                                           const std::vector<tune::Way>& ways, double seconds,
                                           const backend::Registry& backends,
                                           cost::Database& database,
                                           std::vector<std::string>& notes) {
  std::vector<WayCosts> measured;
  std::string reasons;
  for (const auto& way : ways) {
    auto reason = absent(way, place.hosts, survey);
    if (reason.empty()) {
      const auto& build = place.options.build;
      build.progress("measuring " + way.name() + " on the hosts", 0);
      hosts::MeasureOptions options;
      options.backend = way.backend;
      options.backend_options = way.options;
      options.custom_ops = build.custom_ops;
      options.seconds = seconds / static_cast<double>(ways.size());
      options.refresh = build.refresh;
      options.stop = build.stopped;
      auto costs =
          hosts::measure_costs(place.graph, place.hosts, survey, backends, &database, options);
      if (build.stopped()) return make_error(Code::kCancelled, "stopped");
      if (costs) {
        measured.push_back({way, *std::move(costs)});
        continue;
      }
      reason = costs.error().message();
    }
    notes.push_back(concat("left out: ", way.name(), ": ", reason));
    reasons += concat("; ", way.name(), ": ", reason);
  }
  if (!measured.empty()) return measured;
  return make_error(Code::kFailedPrecondition, "no backend runs the network on the hosts", reasons);
}

Result<std::vector<Candidate>> candidates(const Place& place, const hosts::MeasuredLinks& links,
                                          const std::vector<WayCosts>& ways,
                                          double search_seconds) {
  return Planning(place, links, ways, search_seconds).run();
}

}  // namespace penstock::site
