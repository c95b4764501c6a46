// Measures the hosts, runs candidate plans against the reference, writes the best as a package.
#include "penstock/site/build.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>

#include "penstock/app/tune.h"
#include "penstock/base/run_in_thread.h"
#include "penstock/device/device.h"
#include "penstock/frames/random.h"
#include "penstock/hosts/survey.h"
#include "penstock/plan/calls.h"
#include "penstock/plan/package.h"
#include "penstock/session/session.h"
#include "penstock/site/candidates.h"
#include "penstock/tune/contest.h"
#include "penstock/tune/describe.h"
#include "penstock/tune/gate.h"
#include "penstock/tune/taken_frames.h"
#include "penstock/tune/way.h"

namespace penstock::site {
namespace {

constexpr std::uint64_t kRing = 16;
constexpr double kUplinkShare = 0.1;          ///< Of the budget, to tell who shares an uplink;
constexpr double kMeasureShare = 0.4;         ///< Of the budget, for measuring on the hosts;
constexpr double kSearchShare = 0.03;         ///< for one search of the planner,
constexpr double kMostSearch = 10;            ///< which takes no more seconds than these.
constexpr std::chrono::seconds kMostRun{60};  ///< A call that takes longer hangs.

Status refuse_useless(const tune::Options& options) {
  const auto* given = !options.devices.empty()          ? "devices"
                      : !options.rules.empty()          ? "rules"
                      : options.most_parts != INT64_MAX ? "most parts"
                      : options.most_frames > 1         ? "calls of several frames"
                                                        : nullptr;
  if (given == nullptr) return {};
  return invalid_argument(given, ": a build over hosts has no use for them");
}

/// Whatever the connections of the hosts need; a package names none of it.
pipeline::Options connections_of(const hosts::Hosts& hosts) {
  pipeline::Options run;
  const auto& shared = hosts.hosts.front().connection;
  if (!shared.empty()) {
    run.backend_options[std::string(plan::kRemoteBackend)].insert(shared.begin(), shared.end());
  }
  return run;
}

class SiteBuild {
 public:
  SiteBuild(const graph::Graph& graph, hosts::Hosts hosts, const Options& options,
            const backend::Registry& backends, cost::Database& database)
      : graph_(graph),
        hosts_(std::move(hosts)),
        options_(options),
        backends_(backends),
        database_(database),
        budget_(options.build.budget_seconds, options.build.begin) {}

  Result<tune::Report> run(const hosts::Reach& reach) {
    PENSTOCK_CHECK_OK(refuse_useless(options_.build));
    PENSTOCK_CHECK_OK(ask_hosts(reach));
    PENSTOCK_CHECK_OK(hosts::check_connections_alike(hosts_));
    PENSTOCK_CHECK_OK(measure());
    PENSTOCK_CHECK_OK(make_gate());
    PENSTOCK_CHECK_OK(race());
    describe();
    PENSTOCK_CHECK_OK(write());
    report_.seconds = spent();
    report_.measured_plans = contest_->measured();
    return std::move(report_);
  }

 private:
  [[nodiscard]] double spent() const { return budget_.spent(); }
  void say(const std::string& what) const {
    options_.build.progress(what, std::min(1.0, spent() / options_.build.budget_seconds));
  }

  /// Those that answer stay.
  Status ask_hosts(const hosts::Reach& reach) {
    say("asking the hosts");
    auto survey = hosts::survey(hosts_, reach,
                                {.uplink_seconds = kUplinkShare * options_.build.budget_seconds,
                                 .stop = options_.build.stopped});
    if (options_.build.stopped()) return make_error(Code::kCancelled, "stopped");
    std::string reasons;
    std::vector<int> place(hosts_.hosts.size(), hosts::kCaller);
    std::vector<hosts::Host> reached;
    for (std::size_t i = 0; i < hosts_.hosts.size(); ++i) {
      if (survey.hosts[i].error) {
        report_.notes.push_back("left out: " + survey.hosts[i].error->message());
        reasons += "; " + survey.hosts[i].error->message();
        continue;
      }
      place[i] = static_cast<int>(reached.size());
      reached.push_back(hosts_.hosts[i]);
      survey_.hosts.push_back(std::move(survey.hosts[i]));
    }
    if (reached.empty()) {
      return make_error(Code::kUnavailable, "no host can be reached", reasons);
    }
    hosts_.hosts = std::move(reached);
    if (!hosts_.caller.devices.empty()) {
      report_.notes.push_back(
          "left out: this machine's own devices (caller: devices): start a worker here and name "
          "it");
      hosts_.caller.devices.clear();
    }
    const auto at = [&](int host) {
      return host == hosts::kCaller ? host : place[static_cast<std::size_t>(host)];
    };
    auto links = hosts::known_links(database_, hosts_);
    for (const auto& [ends, way] : survey.links.ways) {
      links.ways[{at(ends.first), at(ends.second)}] = way;
    }
    // None was measured of a host that was not reached.
    for (const auto& [end, bandwidth] : survey.links.wires) {
      links.wires[{at(end.first), end.second}] = bandwidth;
    }
    for (const auto& [host, costs] : survey.links.messages) links.messages[at(host)] = costs;
    for (const auto& [pair, bandwidth] : survey.links.uplinks) {
      const auto& [hosts, direction] = pair;
      links.uplinks[{{at(hosts.first), at(hosts.second)}, direction}] = bandwidth;
    }
    survey_.links = std::move(links);
    for (const auto& error : survey.failed) {
      report_.notes.push_back("not measured: " + error.message());
    }
    hosts::complete(hosts_, survey_);
    // A database that cannot be written must not lose the run.
    (void)hosts::keep_links(database_, hosts_, survey_.links);
    for (const auto& way : hosts::Network(hosts_, survey_.links).unknown()) {
      report_.notes.push_back("not known, and taken to be without limit: the link of " + way);
    }
    return {};
  }

  Status measure() {
    PENSTOCK_TRY(const auto ways, tune::usable_ways(options_.build, backends_,
                                                    {.host = {}, .cpus = {0}}, report_.notes));
    PENSTOCK_TRY(ways_, measure_ways({graph_, hosts_, options_}, survey_, ways,
                                     options_.build.budget_seconds * kMeasureShare, backends_,
                                     database_, report_.notes));
    return {};
  }

  Status make_gate() {
    say("running the reference");
    partition::SplitOptions whole;
    whole.devices = {{.host = {}, .cpus = {device::inherited_cpus().front()}}};
    whole.custom_ops = options_.build.custom_ops;
    PENSTOCK_TRY(whole_, pack_model(graph_, whole, backends_, options_.build.states));
    plan::BoundValues bound;
    for (const auto& input : graph_.bound_inputs) bound.emplace(input.name, input.value);
    PENSTOCK_TRY(file_,
                 bind_model(graph_.import.file, bound, backends_, options_.build.custom_ops));
    if (options_.build.frames.empty()) {
      PENSTOCK_TRY(ring_, frames::random_frames(whole_.plan.inputs, options_.build.random, kRing));
    } else {
      auto taken = tune::take_frames(options_.build, file_.file, whole_, backends_);
      for (const auto& note : taken.notes) options_.build.warn(note);
      report_.notes.insert(report_.notes.end(), taken.notes.begin(), taken.notes.end());
      ring_ = frames::repeated(tune::judged_first(std::move(taken.frames), whole_.plan), kRing,
                               !whole_.plan.states.empty());
    }
    const auto tolerance = Tolerance::of(options_.build.tolerance.value_or(Tolerance().relative));
    auto gate = tune::Gate::create(
        {file_.file, whole_, ring_, backends_, true, tolerance, options_.build.stopped});
    if (!gate) return std::move(gate).error().within({Where::kWay, "reference"});
    gate_ = *std::move(gate);
    return {};
  }

  Status race() {
    const double search = std::min(kMostSearch, options_.build.budget_seconds * kSearchShare);
    say("planning");
    PENSTOCK_TRY(candidates_, candidates({graph_, hosts_, options_}, survey_.links, ways_, search));
    runners_.emplace(tune::Pipelines::Setting{
        [this](bool) -> Result<const graph::Graph*> { return &graph_; }, options_.build, backends_,
        ring_, *gate_, kMostRun, connections_of(hosts_)});
    contest_.emplace(
        tune::Contest::Setting{.runners = *runners_,
                               .database = database_,
                               .budget = budget_,
                               .goal = options_.build.goal,
                               .verdict_key = tune::verdict_key(options_.build, backends_, ring_),
                               .say = [this](const std::string& what) { say(what); },
                               .stopped = options_.build.stopped,
                               .refresh = true});
    for (const auto& candidate : candidates_) {
      PENSTOCK_TRY(const auto place, contest_->enter(candidate.contestant));
      of_entry_.emplace(place, &candidate);
    }
    say("running the best plans once more");
    if (contest_->best()) {
      PENSTOCK_CHECK_OK(contest_->run_off(options_.build.budget_seconds - spent()));
    }
    if (contest_->best()) return {};
    std::string reasons;
    for (const auto& entry : contest_->entries()) {
      reasons += concat("; ", entry.way.name, ": ", entry.way.failure);
    }
    return make_error(Code::kFailedPrecondition, "no plan runs on the hosts", reasons);
  }

  void describe() {
    const auto& entries = contest_->entries();
    const auto& best = entries[*contest_->best()];
    const bool latency = options_.build.goal == tune::Goal::kLatency;
    report_.model = tune::model_name(graph_);
    report_.goal = latency ? "latency" : "throughput";
    for (const auto& host : hosts_.hosts) {
      const auto devices = hosts::devices_of(host);
      if (!devices) continue;
      for (const auto& device : *devices) report_.devices.push_back(device::to_string(device));
    }
    report_.chosen = best.way.name;
    if (!contest_->doubt().empty()) report_.notes.push_back(contest_->doubt());
    for (const auto& entry : entries) {
      report_.ways.push_back(entry.way);
      const bool simple = entry.way.name.starts_with(kSimple);
      if (simple && &entry != &best) report_.comparison.simple.push_back(entry.way);
    }
    report_.comparison.plan = best.way;
    report_.now = report_.comparison;
    report_.period_seconds = 1 / best.score;
    report_.latency_seconds = latency ? best.way.latency_seconds : 0;
    report_.tolerance = options_.build.tolerance.value_or(Tolerance().relative);
    const auto& candidate = *of_entry_.at(*contest_->best());
    if (!candidate.expects.empty()) report_.notes.push_back(candidate.expects);
    // A bound that was undercut is none: what was measured was too high.
    if (!latency && candidate.lower_bound <= report_.period_seconds) {
      report_.lower_bound_seconds = candidate.lower_bound;
    }
    describe_parts(best.contestant.split);
    tune::describe_outputs(gate_->judge(), best.doubts, report_);
  }

  /// By the way that each stage's part was given, on its first device's kind of host.
  [[nodiscard]] std::vector<double> node_seconds(const partition::ChosenStages& split) const {
    std::vector<double> seconds(graph_.nodes.size(), 0);
    for (const auto& stage : split.stages) {
      const auto kind = kind_of(hosts_, stage.devices.front());
      for (const auto& part : stage.parts) {
        const auto chosen = std::ranges::find_if(ways_, [&](const WayCosts& costs) {
          return costs.way.backend == part.backend && costs.way.options == part.options;
        });
        if (chosen == ways_.end()) continue;
        for (const auto node : part.nodes) {
          seconds[graph::index(node)] = seconds_of(*chosen, kind, {node});
        }
      }
    }
    return seconds;
  }

  void describe_parts(const partition::ChosenStages& split) {
    report_.nodes = tune::nodes_of(graph_, node_seconds(split));
    for (std::size_t i = 0; i < split.stages.size(); ++i) {
      const auto& stage = split.stages[i];
      const auto kind = kind_of(hosts_, stage.devices.front());
      for (const auto& chosen : stage.parts) {
        auto part = tune::part_report(chosen, static_cast<int>(i), report_.nodes);
        for (const auto& way : ways_) {
          const double sum = seconds_of(way, kind, chosen.nodes);
          part.trials.push_back({way.way.name(), sum, sum, sum, 1, ""});
        }
        part.reason = concat("measured on hosts as ", device::to_string(stage.devices.front()));
        report_.parts.push_back(std::move(part));
      }
    }
  }

  Status write() {
    const auto split = tune::split_options(contest_->entries()[*contest_->best()], report_,
                                           options_.build.custom_ops);
    const auto& build = options_.build;
    say("writing the package");
    build.on_write();
    const auto written = split_model(graph_, split, {.streams = build.streams}, build.output,
                                     backends_, build.states);
    if (!written) return written.error();
    for (const auto& note : plan::separate_draws(*written)) build.warn(note);
    return {};
  }

  const graph::Graph& graph_;
  hosts::Hosts hosts_;  ///< Those that were reached.
  const Options& options_;
  const backend::Registry& backends_;
  cost::Database& database_;
  const tune::Budget budget_;
  hosts::Survey survey_;
  std::vector<WayCosts> ways_;
  plan::Package whole_;
  ModelFile file_;
  measure::Ring ring_;
  std::optional<tune::Gate> gate_;
  std::vector<Candidate> candidates_;
  std::optional<tune::Pipelines> runners_;
  std::optional<tune::Contest> contest_;
  std::map<std::size_t, const Candidate*> of_entry_;
  tune::Report report_;
};

}  // namespace

Result<tune::Report> build_over(const graph::Graph& graph, hosts::Hosts hosts,
                                const hosts::Reach& reach, const Options& options,
                                const backend::Registry& backends, cost::Database& database) {
  PENSTOCK_CHECK_OK(plan::check_target(options.build.output));
  return run_in_thread(
      [&] { return SiteBuild(graph, std::move(hosts), options, backends, database).run(reach); });
}

Result<tune::Report> build_app_over(const app::App& application, const hosts::Hosts& hosts,
                                    const hosts::Reach& reach, const Options& options,
                                    const backend::Registry& backends, cost::Database& database,
                                    const std::vector<function::Function>& functions) {
  PENSTOCK_CHECK_OK(refuse_useless(options.build));
  PENSTOCK_CHECK_OK(hosts::check_connections_alike(hosts));
  const app::Elsewhere elsewhere{[&](const graph::Graph& graph, const tune::Options& build) {
                                   return build_over(graph, hosts, reach, {build, options.standby},
                                                     backends, database);
                                 },
                                 connections_of(hosts)};
  return app::build_app(application, options.build, backends, database, functions, &elsewhere);
}

}  // namespace penstock::site
