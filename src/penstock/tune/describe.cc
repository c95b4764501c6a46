// Fills in a report's nodes, parts with their reasons, outputs, notes and lower bound.
#include "penstock/tune/describe.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace penstock::tune {

std::vector<NodeReport> nodes_of(const graph::Graph& graph, const std::vector<double>& seconds) {
  std::vector<NodeReport> reports;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& node = graph.nodes[i];
    auto& report = reports.emplace_back(NodeReport{node.name, node.op, {}, 0, {}, seconds[i]});
    for (const auto id : node.inputs) {
      if (id == graph::ValueId::kNone || !graph.value(id).producer) continue;
      report.inputs.push_back(static_cast<int>(graph::index(*graph.value(id).producer)));
    }
  }
  return reports;
}

PartReport part_report(const partition::ChosenPart& chosen, int stage,
                       std::vector<NodeReport>& nodes) {
  PartReport part;
  part.stage = stage;
  part.backend = way_of(chosen).name();
  for (const auto id : chosen.nodes) {
    part.nodes.push_back(static_cast<int>(graph::index(id)));
    nodes[graph::index(id)].stage = stage;
    nodes[graph::index(id)].backend = part.backend;
  }
  part.label = nodes[static_cast<std::size_t>(part.nodes.front())].name;
  if (part.nodes.size() > 1) {
    part.label += " .. " + nodes[static_cast<std::size_t>(part.nodes.back())].name;
  }
  return part;
}

void describe_outputs(const measure::Judge& judge, const std::map<std::string, std::string>& doubts,
                      Report& report) {
  for (const auto& allowed : judge.allowances()) {
    const auto found = doubts.find(allowed.output);
    const auto doubt = found == doubts.end() ? std::string() : found->second;
    report.outputs.push_back({allowed.output, measure::explain(allowed), doubt});
    if (!doubt.empty()) report.notes.push_back("inconclusive: " + doubt);
  }
}

namespace {

/// Why a part is where it is.
std::string reason_of(const PartReport& part, bool divided) {
  const auto own = std::ranges::find(part.trials, part.backend, &TrialReport::backend);
  const TrialReport* rival = nullptr;
  for (const auto& trial : part.trials) {
    if (trial.backend == part.backend || !trial.failure.empty()) continue;
    if (rival == nullptr || trial.seconds < rival->seconds) rival = &trial;
  }
  if (rival != nullptr && own != part.trials.end() && own->failure.empty()) {
    const auto less = std::lround((1 - own->seconds / rival->seconds) * 100);
    const auto than =
        concat(" time than ", rival->backend, rival->pieces > 1 ? " piece by piece" : " by itself");
    if (less >= 0) return concat(less, " % less", than);
    return concat(-less, " % more", than, ", but the plan was faster as a whole");
  }
  if (divided) return "of the plan that was measured the fastest as a whole";
  const bool others =
      std::ranges::any_of(part.trials, [](const TrialReport& trial) { return trial.pieces != 1; });
  return others ? "the only backend that was timed on it" : "the only backend that runs it";
}

/// On CPUs, as many as the stage has of them, and on each kind of accelerator.
std::vector<TrialReport> trials_of(const Findings& findings,
                                   const std::vector<graph::NodeId>& nodes,
                                   const std::vector<device::Device>& devices) {
  auto trials = findings.parts.trials_of(nodes, devices);
  for (const auto& alike : findings.accelerators) {
    std::ranges::move(alike.parts->trials_of(nodes, alike.devices), std::back_inserter(trials));
  }
  return trials;
}

void describe_parts(const Findings& findings, Report& report) {
  const auto& best = findings.contest.entries()[*findings.contest.best()];
  const auto& stages = best.contestant.split.stages;
  Cover cover;
  for (const auto& stage : stages) {
    cover.insert(cover.end(), stage.parts.begin(), stage.parts.end());
  }
  const bool as_is = best.contestant.as_is;  // Of whose nodes no part was measured.
  const auto cpus = findings.devices.front().cpus.size();
  auto seconds =
      as_is ? analytic_seconds(findings.graph, cpus) : findings.parts.node_seconds(cover);
  const bool batched = !best.contestant.batches.empty();
  const auto& first = stages.front().devices.front();
  const bool as_wide = first.is_accelerator() || first.cpus.size() == cpus;
  if (as_is || batched || stages.size() > 1 || !as_wide) {
    bring_to_stages(seconds, {findings.graph, findings.devices}, best.contestant.split,
                    best.stage_seconds);
  }
  report.nodes = nodes_of(findings.graph, seconds);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    for (const auto& chosen : stages[i].parts) {
      auto part = part_report(chosen, static_cast<int>(i), report.nodes);
      if (as_is) {
        part.reason = "the file as it is was measured faster than its clean import";
      } else {
        part.trials = trials_of(findings, chosen.nodes, stages[i].devices);
        part.reason = reason_of(part, stages.size() > 1 || stages[i].parts.size() > 1);
      }
      report.parts.push_back(std::move(part));
    }
  }
}

}  // namespace

double least_period(double least_cover, const std::vector<device::Device>& devices,
                    const std::vector<std::string>& kinds, const Contestant& contestant) {
  if (contestant.as_is || !contestant.batches.empty()) return 0;
  const auto& first = kinds.front();
  if (std::ranges::any_of(kinds, [&](const auto& kind) { return kind != first; })) return 0;
  for (const auto& stage : contestant.split.stages) {
    for (const auto& device : stage.devices) {
      if (std::ranges::find(devices, device) == devices.end()) return 0;
    }
  }
  // Devices share the frames, not one frame.
  return least_cover / static_cast<double>(devices.size());
}

std::string model_name(const graph::Graph& graph) {
  return graph.import.file.filename().string();
}

void describe(const Findings& findings, Report& report) {
  const auto& entries = findings.contest.entries();
  const bool latency = findings.options.goal == Goal::kLatency;
  report.chosen = entries[*findings.contest.best()].way.name;
  report.model = model_name(findings.graph);
  report.goal = latency ? "latency" : "throughput";
  for (const auto& device : findings.devices) {
    if (findings.on_cpus) report.devices.push_back(device::to_string(device));
  }
  for (const auto& alike : findings.accelerators) {
    for (const auto& device : alike.devices) report.devices.push_back(device::to_string(device));
    for (const auto& failure : alike.parts->failures()) {
      report.notes.push_back("left out: " + failure);
    }
  }
  for (const auto& entry : entries) report.ways.push_back(entry.way);
  report.latency_seconds = latency ? report.comparison.plan.latency_seconds : 0;
  report.period_seconds = 1 / report.comparison.plan.frames_per_second;
  describe_parts(findings, report);
  report.tolerance = findings.options.tolerance.value_or(Tolerance().relative);
  // A bound that was undercut is none: the parts' times were too high.
  const double bound = least_period(findings.parts.least_cover(), findings.devices, findings.kinds,
                                    entries[*findings.contest.best()].contestant);
  const bool on_cpus_alone = findings.accelerators.empty();
  if (!latency && on_cpus_alone && bound <= report.period_seconds) {
    report.lower_bound_seconds = bound;
  }
  for (const auto& failure : findings.parts.failures()) {
    report.notes.push_back("left out: " + failure);
  }
  if (!entries[*findings.contest.best()].contestant.batches.empty()) {
    report.notes.push_back("the backends' times of a part are of one frame in a call");
  }
  if (!findings.contest.doubt().empty()) report.notes.push_back(findings.contest.doubt());
  for (const auto& state : findings.options.states) {
    report.notes.push_back(
        concat("state: '", state.from, "' of each frame is '", state.to,
               "' of the next; what writes it has one instance, and of the simple ways those "
               "compete that run one frame at a time"));
  }
  for (const auto& sentence : entries[*findings.contest.best()].unseen) {
    report.notes.push_back(concat(sentence, " of ", in_words_of_caller("'verify'", "verify()")));
  }
  describe_outputs(findings.gate.judge(), entries[*findings.contest.best()].doubts, report);
}

partition::SplitOptions split_options(const Entry& chosen, const Report& report,
                                      std::vector<std::filesystem::path> custom_ops) {
  auto stages = chosen.contestant.split;
  // What a call of several frames takes depends on how many come.
  const bool foretold = chosen.contestant.batches.empty();
  for (std::size_t i = 0; i < std::min(stages.stages.size(), chosen.stage_seconds.size()); ++i) {
    if (foretold) stages.stages[i].predicted_seconds = chosen.stage_seconds[i];
  }
  stages.prediction = {report.period_seconds, report.latency_seconds, report.lower_bound_seconds};
  partition::SplitOptions split{.by = std::move(stages)};
  split.custom_ops = std::move(custom_ops);
  split.batches = chosen.contestant.batches;
  split.files["build.json"] = to_json(report);
  return split;
}

}  // namespace penstock::tune
