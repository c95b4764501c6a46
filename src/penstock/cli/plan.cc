// penstock plan: the best pipeline, with its proof.
#include "penstock/hosts/plan.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>

#include <spdlog/spdlog.h>

#include "penstock/base/files.h"
#include "penstock/cli/command.h"
#include "penstock/cli/import_options.h"
#include "penstock/cli/interrupt.h"
#include "penstock/cli/numbers.h"
#include "penstock/cli/outputs.h"
#include "penstock/cli/package_needs.h"
#include "penstock/cli/plan_report.h"
#include "penstock/cli/plugins.h"
#include "penstock/cli/progress.h"
#include "penstock/cli/stream_options.h"
#include "penstock/cli/text.h"
#include "penstock/device/topology.h"
#include "penstock/hosts/costs.h"
#include "penstock/hosts/stages.h"
#include "penstock/hosts/survey.h"
#include "penstock/partition/resolve.h"
#include "penstock/plan/calls.h"
#include "penstock/planner/report/svg.h"
#include "penstock/planner/solve.h"
#include "penstock/planner/workload/workload.h"
#include "penstock/session/plan_model.h"
#include "penstock/session/session.h"
#include "penstock/session/state_loops.h"
#include "penstock/site/reach.h"

namespace penstock::cli {
namespace {

/// What makes the problem: a workload, or a model and what it may run on.
struct ProblemOptions {
  std::filesystem::path workload;
  std::optional<int> cpus;
  std::optional<double> memory;
  std::optional<double> communication_factor;
  bool free_idle = false;
  std::string devices;  ///< A number for a workload, names for a model.

  std::filesystem::path model;
  std::filesystem::path package;
  std::filesystem::path hosts;  ///< Instead of devices of this machine.
  bool standby = false;
  bool measure = false;  ///< Ask the hosts.
  double measure_seconds = 60;
  std::vector<std::string> pins;
  std::vector<std::string> states;
  std::string streams;
  std::string figures;
  std::string backend = "onnxruntime";
  ImportArguments import;
  BackendArguments engine;
};

struct PlanOptions {
  ProblemOptions problem;
  int segments_per_device = 1;
  bool replicas = false;
  std::string goal = "throughput";
  std::optional<double> latency_cap;
  double deadline = 10;
  std::filesystem::path split;
  std::filesystem::path svg;
  bool pareto = false, what_if = false, json = false;
};

planner::Goal goal_of(const PlanOptions& options) {
  return options.goal == "latency" ? planner::Goal::kLatency : planner::Goal::kThroughput;
}

/// Those of a workload, which has no names.
Result<int> to_count_of_devices(const std::string& text) {
  int count = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, count);
  if (problem == std::errc() && stop == end && count >= 0 && count <= planner::kMostDevices)
    return count;
  return invalid_argument("expected a number of accelerators from 0 to ", planner::kMostDevices,
                          ", found '", text, "'; names of devices go with a model");
}

/// \throws CLI::ValidationError  --devices has another form than that of a workload, or of a model.
void check_form_of_devices(const ProblemOptions& options) {
  if (options.devices.empty()) return;
  const auto check = options.model.empty() ? taken_by(to_count_of_devices) : device_list();
  std::string text = options.devices;
  if (const auto wrong = check(text); !wrong.empty())
    throw CLI::ValidationError("--devices", wrong);
}

Result<planner::Problem> read_problem(const PlanOptions& planning, bool free_idle) {
  const auto& options = planning.problem;
  planner::WorkloadOptions workload;
  if (!options.devices.empty()) {
    PENSTOCK_TRY(workload.devices, to_count_of_devices(options.devices));
  }
  workload.cpus = options.cpus;
  workload.memory = options.memory;
  workload.communication_factor = options.communication_factor.value_or(1);
  workload.goal = goal_of(planning);
  workload.join_idle = !free_idle;
  workload.one_stage = planning.segments_per_device == 1;
  PENSTOCK_TRY(auto problem, planner::read_workload(options.workload, workload));
  constexpr auto kWayOut = " (--free-idle lets them go)";
  if (problem.scope.empty()) return problem;
  problem.scope += kWayOut;
  for (auto& note : problem.notes) note += kWayOut;
  return problem;
}

/// What a model cannot have, whether a package is written or not.
Status refuse_with_model(const ProblemOptions& options) {
  const auto* given = options.cpus                   ? "--cpus"
                      : options.communication_factor ? "--communication-factor"
                      : options.free_idle            ? "--free-idle"
                                                     : nullptr;
  if (given == nullptr) return {};
  return invalid_argument(given, ": goes with --workload only; found a model");
}

Result<PlanModelOptions> to_model_options(const ProblemOptions& options,
                                          const graph::Graph& graph) {
  PlanModelOptions to;
  if (!options.devices.empty()) {
    PENSTOCK_TRY(const auto cpus, device::cpus_to_plan_for());
    auto devices = device::parse_devices(options.devices, cpus);
    if (!devices) return std::move(devices).error().within("--devices");
    for (const auto& device : *devices) PENSTOCK_CHECK_OK(device::check_available(device, cpus));
    to.devices = *std::move(devices);
  }
  PENSTOCK_TRY(to.states, to_states(options.states));
  PENSTOCK_TRY(to.costs.figures, cost::parse_figures(options.figures));
  to.costs.backend = options.backend;
  to.costs.memory = options.memory.value_or(planner::kInfinite);
  for (const auto& text : options.pins) {
    PENSTOCK_TRY(auto pin, parse_pin(text));
    PENSTOCK_TRY(const auto node, partition::resolve_node(graph, pin.first, "pin"));
    to.costs.pins.emplace_back(node, std::move(pin.second));
  }
  return to;
}

/// The split that --split names.
Result<planner::Split> read_split(const PlanOptions& options, const planner::Problem& problem) {
  const Where place{Where::kFile, options.split.string()};
  std::error_code ignored;
  if (std::filesystem::is_directory(options.split, ignored)) {
    return invalid_argument("expected a file, found a folder").within(place);
  }
  std::ifstream in(options.split, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) return not_found("cannot be read; check the path").within(place);
  auto split = planner::parse_workload_split(text, problem);
  if (!split) return std::move(split).error().within(place);
  return split;
}

Result<planner::Options> to_planner_options(const PlanOptions& options,
                                            const planner::Problem& problem) {
  if (!(options.deadline >= 0)) {
    return invalid_argument("--deadline: expected 0 or more seconds, found ", options.deadline);
  }
  planner::Options to;
  to.goal = goal_of(options);
  to.replicas = options.replicas;
  to.segments_per_device = options.segments_per_device;
  to.latency_cap = options.latency_cap.value_or(planner::kInfinite);
  to.seconds = options.deadline;
  to.interrupted = interrupted;
  if (!options.split.empty()) {
    PENSTOCK_TRY(to.user_split, read_split(options, problem));
  }
  return to;
}

/// Calls `solve` with the options, and shows on a terminal how far the bounds are apart.
template <typename Solve>
auto solve_visibly(planner::Options options, bool in_seconds, const Solve& solve) {
  TerminalLine line;
  if (line.on_terminal()) {
    options.report = [&](double lower, double cost) {
      line.show(bounds_text(options, in_seconds, lower, cost));
    };
  }
  return solve(options);
}

using WhatIfs = std::optional<std::vector<planner::WhatIf>>;

/// Asked before the answer is used, which may become better by it.
WhatIfs ask_what_if(const planner::Problem& problem, const planner::Options& planning,
                    const PlanOptions& options, planner::Answer& answer) {
  if (!options.what_if) return std::nullopt;
  return planner::what_if(problem, planning, options.deadline, answer);
}

/// What is printed.
struct PlanReport {
  planner::Answer answer;
  WhatIfs what_if;
  std::string note;                         ///< Ends the text.
  std::vector<hosts::WireLoad> wires = {};  ///< Of several hosts.
  std::string grouping = {};                ///< Where devices were chosen.
};

Status report(const planner::Problem& problem, const planner::Options& planning,
              const PlanOptions& options, const PlanReport& found) {
  const auto& answer = found.answer;
  if (!options.svg.empty()) {
    PENSTOCK_CHECK_OK(write_whole_file(options.svg, planner::to_svg(problem, planning, answer)));
  }
  Json json = answer_json(problem, planning, answer);
  std::string text = answer_text(problem, planning, answer);
  if (found.what_if) {
    json["what_if"] = what_if_json(*found.what_if);
    text += what_if_text(problem, *found.what_if, answer);
  }
  if (options.pareto) {
    auto seeded = planning;  // The list is compared with the answer.
    seeded.user_split = answer.split;
    const bool bounds_period = planning.goal == planner::Goal::kThroughput;
    const auto front = planner::pareto_front(problem, seeded, options.deadline,
                                             bounds_period ? answer.lower_bound : 0);
    json["pareto"] = pareto_json(problem, front);
    text += pareto_text(problem, front);
  }
  if (!found.wires.empty()) {
    json["links"] = wires_json(found.wires);
    text += wires_text(found.wires, answer);
  }
  if (!found.grouping.empty()) json["grouping"] = found.grouping;
  json["interrupted"] = interrupted();
  if (options.json) {
    print_json(json);
  } else {
    print(text + found.note +
          (interrupted() ? "\ninterrupted: the best so far; lists may be short\n" : ""));
  }
  return {};
}

Status refuse_with_workload(const ProblemOptions& options) {
  const auto& import = options.import;
  const auto* given = !options.package.empty()             ? "--output"
                      : !options.hosts.empty()             ? "--hosts"
                      : !options.pins.empty()              ? "--pin"
                      : !options.states.empty()            ? "--state"
                      : !options.streams.empty()           ? "--streams"
                      : !options.figures.empty()           ? "--figures"
                      : !import.shapes.empty()             ? "--shape"
                      : !import.constants.empty()          ? "--constant"
                      : !import.parameters.empty()         ? "--parameter"
                      : import.as_is                       ? "--as-is"
                      : !options.engine.options.empty()    ? "--backend-option"
                      : !options.engine.custom_ops.empty() ? "--custom-ops"
                                                           : nullptr;
  if (given == nullptr) return {};
  return invalid_argument(given, ": goes with a model only; found --workload");
}

/// The error with its place, and with what people stumble over.
Error because(const PlanOptions& options, const planner::Problem& problem, Error error) {
  const auto free = std::ranges::find(problem.types, false, &planner::DeviceType::pays_transfers);
  if (error.code == Code::kFailedPrecondition && options.latency_cap &&
      goal_of(options) == planner::Goal::kThroughput && free != problem.types.end()) {
    error = std::move(error).adding(
        concat("; a latency that --goal latency finds may be out of reach, for there '", free->name,
               "' is without limit, and here there are ", free->devices.size()));
  }
  return std::move(error).within({Where::kFile, options.problem.workload.string()});
}

/// Plans the workload as it is given.
Result<int> plan_problem(const PlanOptions& options, const planner::Problem& problem) {
  PENSTOCK_TRY(const auto planning, to_planner_options(options, problem));
  auto answer = solve_visibly(planning, problem.in_seconds, [&](const planner::Options& search) {
    return planner::solve(problem, search);
  });
  if (!answer) return because(options, problem, std::move(answer).error());
  for (const auto& note : problem.notes) spdlog::warn("{}", note);
  auto what_if = ask_what_if(problem, planning, options, *answer);
  PENSTOCK_CHECK_OK(report(problem, planning, options, {*std::move(answer), std::move(what_if)}));
  return kOk;
}

Result<int> plan_workload(const PlanOptions& options) {
  PENSTOCK_CHECK_OK(refuse_with_workload(options.problem));
  const planner::Budget budget(options.deadline, {});
  PENSTOCK_TRY(const auto problem, read_problem(options, options.problem.free_idle));
  auto done = plan_problem(options, problem);
  const bool joined = !problem.scope.empty();
  if (done || !joined || done.error().code != Code::kFailedPrecondition) return done;
  // What the reader joined is in the way, perhaps; the file does not ask for it.
  PENSTOCK_TRY(auto free, read_problem(options, true));
  free.notes.emplace_back(
      "nodes without time may leave their only neighbour, as with --free-idle: with them together "
      "there is no plan");
  auto rest = options;
  rest.deadline = budget.left();
  return plan_problem(rest, free);
}

Status write_package(partition::ChosenStages stages, const graph::Graph& graph,
                     const ProblemOptions& options, const backend::Registry& backends) {
  partition::SplitOptions split;
  split.by = std::move(stages);
  if (const auto found = backends.find(options.backend); !found) return found.error();
  split.backend = options.backend;
  split.custom_ops = options.engine.custom_ops;
  PENSTOCK_TRY(split.backend_options,
               to_options_of(options.backend, options.engine, !options.hosts.empty()));
  PENSTOCK_TRY(const auto states, to_states(options.states));
  plan::StreamOptions stream;
  PENSTOCK_TRY(stream.streams, to_streams(options.streams));
  const auto written = split_model(graph, split, stream, options.package, backends, states);
  if (!written) return written.error();
  warn_of_silent_hosts(*written);
  for (const auto& note : plan::separate_draws(*written)) spdlog::warn("{}", note);
  return {};
}

/// Nodes whose work or bytes are not known, by what hides them.
struct Uncounted {
  std::size_t open = 0;     ///< Behind inputs of open shapes.
  std::size_t no_size = 0;  ///< Of texts, sequences and the like, whose bytes no shape tells.
  std::size_t other = 0;    ///< Values decide the size, or nobody here knows the operator.

  [[nodiscard]] std::size_t all() const { return open + no_size + other; }
};

std::vector<std::string> open_inputs(const graph::Graph& graph) {
  std::vector<std::string> names;
  for (const auto id : graph.inputs) {
    const auto& value = graph.value(id);
    const bool open = value.type.kind == Type::Kind::kTensor &&
                      (!value.type.ranked || !std::ranges::all_of(value.type.dims, &Dim::fixed));
    if (open) names.push_back("'" + value.name + "'");
  }
  return names;
}

Uncounted count_open(const graph::Graph& graph) {
  Uncounted uncounted;
  const bool behind_open = !open_inputs(graph).empty();
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    bool known = graph::known_macs_of(graph, static_cast<graph::NodeId>(i)).has_value();
    bool sized = true;
    for (const auto value : graph.nodes[i].outputs) {
      if (value == graph::ValueId::kNone) continue;
      const auto& type = graph.value(value).type;
      known = known && type.max_bytes();
      sized = sized && type.kind != Type::Kind::kOther &&
              !(type.kind == Type::Kind::kTensor && type.dtype == DType::kString);
    }
    if (known) continue;
    ++(!sized ? uncounted.no_size : behind_open ? uncounted.open : uncounted.other);
  }
  return uncounted;
}

void warn_of_open_shapes(const graph::Graph& graph) {
  const auto uncounted = count_open(graph);
  if (uncounted.all() == 0) return;
  std::vector<std::string> parts;
  if (uncounted.open > 0) {
    parts.push_back(concat(uncounted.open,
                           " behind inputs of open shapes (bind them with --shape: ",
                           join(open_inputs(graph), ", "), ")"));
  }
  if (uncounted.no_size > 0) {
    parts.push_back(concat(uncounted.no_size,
                           " of texts, sequences or optional values, whose size no shape tells"));
  }
  if (uncounted.other > 0) {
    parts.push_back(concat(uncounted.other,
                           " whose size only the values decide, or whose operator or inputs are "
                           "such that nothing is known of it"));
  }
  spdlog::warn("{} of {} nodes cost too little here: {}", uncounted.all(), graph.nodes.size(),
               join(parts, "; "));
}

constexpr const char* kNotMeasured = "\ntimes are by an analytic model, not measured\n";

Status refuse_with_hosts(const PlanOptions& options) {
  const auto& problem = options.problem;
  if (options.replicas && !problem.states.empty()) {
    return invalid_argument(
        "--replicas: goes with --hosts and no --state; leave one of them out, as what writes a "
        "state has one replica");
  }
  const auto* given = !problem.devices.empty() ? "--devices"
                      : problem.memory         ? "--memory"
                      : options.what_if        ? "--what-if"
                      : options.pareto         ? "--pareto"
                                               : nullptr;
  if (given == nullptr) return {};
  return invalid_argument(given,
                          ": does not go with --hosts, whose file says what there is; change "
                          "that to ask what would be");
}

void warn_of_unknown_links(const hosts::Hosts& all, const hosts::Known& known) {
  const auto ways = hosts::Network(all, known.links).unknown();
  if (ways.empty()) return;
  spdlog::warn(
      "how much these carry is not known, and taken to be without limit: {}; say 'link' in "
      "'{}'",
      join(ways, ", "), all.file.string());
}

/// What earlier surveys measured of the links; with --measure what the hosts say now, and what the
/// network takes there.
Result<hosts::Known> ask_hosts(const PlanOptions& options, const graph::Graph& graph,
                               const backend::Registry& backends, hosts::Hosts& all) {
  hosts::Known known;
  auto database = cost::Database::open(cost::Database::default_path());
  if (!database) {
    spdlog::warn("{}; what was measured of the links is not known", database.error().message());
  }
  if (database) {
    database->go_on_without([](const std::string& why) { spdlog::warn("{}", why); });
    known.links = hosts::known_links(*database, all);
  }
  if (!options.problem.measure) return known;
  PENSTOCK_TRY(const auto reach, site::load_reach());
  auto survey = hosts::survey(all, reach, {.stop = interrupted});
  if (interrupted()) return make_error(Code::kCancelled, "stopped");
  for (const auto& host : survey.hosts) {
    if (host.error) spdlog::warn("{}; it is planned for as its file says", host.error->message());
  }
  for (const auto& error : survey.failed) spdlog::warn("not measured: {}", error.message());
  hosts::complete(all, survey);
  hosts::add(known.links, survey.links);
  if (database) PENSTOCK_CHECK_OK(hosts::keep_links(*database, all, survey.links));
  hosts::MeasureOptions measuring;
  measuring.backend = options.problem.backend;
  PENSTOCK_TRY(measuring.backend_options,
               to_options_of(options.problem.backend, options.problem.engine, true));
  measuring.custom_ops = options.problem.engine.custom_ops;
  measuring.seconds = options.problem.measure_seconds;
  measuring.stop = interrupted;
  measuring.warn = [](const std::string& text) { spdlog::warn("{}", text); };
  PENSTOCK_TRY(known.costs, hosts::measure_costs(graph, all, survey, backends,
                                                 database ? &*database : nullptr, measuring));
  return known;
}

Result<int> plan_hosts(const PlanOptions& options) {
  PENSTOCK_CHECK_OK(refuse_with_model(options.problem));
  PENSTOCK_CHECK_OK(refuse_with_hosts(options));
  PENSTOCK_TRY(auto all, read_hosts(options.problem.hosts, options.problem.engine));
  const auto backends = load_backends();
  PENSTOCK_TRY(const auto graph, import_file(options.problem.model, options.problem.import,
                                             backends, options.problem.engine.custom_ops));
  PENSTOCK_TRY(const auto known, ask_hosts(options, graph, backends, all));
  warn_of_open_shapes(graph);
  warn_of_unknown_links(all, known);
  PENSTOCK_TRY(auto to, to_model_options(options.problem, graph));
  PENSTOCK_TRY(const auto planning, to_planner_options(options, {}));
  PENSTOCK_CHECK_OK(check_states(graph, to.states));
  to.costs.together = state_loops(graph, to.states);
  PENSTOCK_TRY(const auto found, hosts::plan_over(graph, all, known, {to.costs, planning}));
  std::string note = known.costs.empty() ? kNotMeasured : "\ntimes are of what was measured\n";
  if (!options.problem.package.empty()) {
    PENSTOCK_TRY(auto stages, chosen_stages_of({found.problem, found.answer}));
    PENSTOCK_CHECK_OK(hosts::equip(stages, all, found, options.problem.standby));
    PENSTOCK_CHECK_OK(write_package(std::move(stages), graph, options.problem, backends));
    note += "written to '" + options.problem.package.string() + "'\n" + connections_text(all);
  }
  PENSTOCK_CHECK_OK(report(found.problem, planning, options,
                           {found.answer, std::nullopt, std::move(note), found.wires}));
  return kOk;
}

Result<int> plan_model(const PlanOptions& options) {
  if (!options.problem.hosts.empty()) return plan_hosts(options);
  PENSTOCK_CHECK_OK(refuse_with_model(options.problem));
  const auto backends = load_backends();
  PENSTOCK_TRY(const auto graph, import_file(options.problem.model, options.problem.import,
                                             backends, options.problem.engine.custom_ops));
  PENSTOCK_TRY(auto to, to_model_options(options.problem, graph));
  planner::Problem named;  // What a split's nodes and devices are of.
  if (!options.split.empty()) {
    PENSTOCK_TRY(named, problem_of_model(graph, to));
  }
  PENSTOCK_TRY(const auto planning, to_planner_options(options, named));
  PENSTOCK_TRY(auto planned, solve_visibly(planning, true, [&](const planner::Options& search) {
                 to.search = search;
                 return penstock::plan_model(graph, to);
               }));
  auto what_if = ask_what_if(planned.problem, planning, options, planned.answer);
  std::string note = kNotMeasured;
  if (!planned.grouping.empty()) note += "devices, chosen: " + planned.grouping + "\n";
  warn_of_open_shapes(graph);
  if (!options.problem.package.empty()) {
    PENSTOCK_TRY(auto stages, chosen_stages_of(planned));
    PENSTOCK_CHECK_OK(write_package(std::move(stages), graph, options.problem, backends));
    note += "written to '" + options.problem.package.string() + "'\n";
  }
  PENSTOCK_CHECK_OK(
      report(planned.problem, planning, options,
             {planned.answer, std::move(what_if), std::move(note), {}, planned.grouping}));
  return kOk;
}

Result<int> run(const PlanOptions& options) {
  if (!options.svg.empty()) PENSTOCK_CHECK_OK(check_writable("--svg", options.svg, true, kSvg));
  const InterruptGuard guard;
  return options.problem.model.empty() ? plan_workload(options) : plan_model(options);
}

constexpr const char* kPlanFooter =
    R"(Finds the split with the least period (the largest load of a device), or with --goal latency the
one with the least time of one frame, and a lower bound that no split can beat. Where both meet the
plan is proved best; else the gap between them is told. Ctrl-C ends the search with the best so far.

A model is planned for CPUs of this machine, with the time of each node taken from its
multiply-accumulates and bytes. Without --devices the best devices are chosen that the CPUs can be, each
of one or of several, within the control group's quota. -o writes the package that 'penstock run' runs. --figures macs=2e10,
bytes=1e10,node=2e-6,transfer=5e-7 says what a CPU does in a second, and what a node and a transfer cost.

With --hosts it is planned for the machines of that file, over their links, which may be there or not.

A workload is a planning problem in the JSON format of the dnn-partitioning project (Tarnawski et al.,
NeurIPS 2020): nodes with a time on each kind of device, edges with a cost. Times have the file's unit.

Examples:
  penstock plan model.onnx --devices cpu:0,cpu:1 -o model.penstock
  penstock plan model.onnx --devices cpu:0,cpu:1,cpu:2-3 --replicas --svg plan.svg
  penstock plan voice.onnx --constant sr=16000 --state stateN=state -o voice.penstock
  penstock plan model.onnx --hosts hosts.yaml --standby -o model.penstock
  penstock plan --workload bert24.json
  penstock plan --workload bert24.json --devices 8 --cpus 0 --memory 17e9 --json
  penstock plan --workload bert24.json --segments-per-device 4 --deadline 10 --svg plan.svg
  penstock plan --workload bert24.json --goal latency
  penstock plan --workload bert24.json --what-if --pareto)";

void add_problem_options(CLI::App* command, ProblemOptions& options) {
  auto* model = command->add_option("model", options.model, "A model (.onnx)");
  auto* workload =
      command->add_option("--workload", options.workload, "A planning problem instead, JSON");
  model->excludes(workload);
  command
      ->add_option("--devices", options.devices,
                   "Of a model: cpu:0,cpu:1 or cpu:0-1,cpu:2+3 (default: chosen; with --pin or "
                   "--split each CPU); of a workload: "
                   "how many accelerators (default: the file's)")
      ->check(not_empty("devices"));
  command->add_option("--cpus", options.cpus, "CPU cores of a workload; default: the file's")
      ->check(whole_number(0, planner::kMostDevices));
  command
      ->add_option(
          "--memory", options.memory,
          "Bytes of each device; default: the file's, or no limit. Of a model: its weights and "
          "the frames that the plan has in flight; a run may hold more")
      ->check(not_negative_number());
  command
      ->add_option("--communication-factor", options.communication_factor,
                   "Multiplies the cost of every edge (default: 1)")
      ->check(not_negative_number());
}

void add_idle_option(CLI::App* command, ProblemOptions& options) {
  command->add_flag(
      "--free-idle", options.free_idle,
      "Let nodes of a workload that take no time leave the only node that each has edges "
      "with; the published optima keep them there where memory is scarce");
}

void add_model_options(CLI::App* command, ProblemOptions& options) {
  command->add_option("-o,--output", options.package,
                      "The package to write: a folder, or a file ending in .zip");
  auto* hosts = command
                    ->add_option("--hosts", options.hosts,
                                 "A file of machines and links to plan for, there or not yet "
                                 "(docs/hosts.md)")
                    ->check(not_empty("a file"));
  command
      ->add_flag("--standby", options.standby,
                 "Give each stage a device of another host, which takes its frames over")
      ->needs(hosts);
  auto* measure =
      command
          ->add_flag("--measure", options.measure,
                     "Ask the workers of the hosts what they are, and measure the links and what "
                     "the network takes there; what is known already is not measured again")
          ->needs(hosts);
  command
      ->add_option("--measure-seconds", options.measure_seconds,
                   "Seconds to measure what the network takes, on all kinds of host together")
      ->capture_default_str()
      ->check(not_negative_number())
      ->needs(measure);
  add_list(command, "--pin", options.pins, "NODE=DEVICE: this node on that device")
      ->check(taken_by(parse_pin));
  add_state_option(command, options.states);
  add_streams_option(command, options.streams);
  command->add_option("--figures", options.figures,
                      "What a CPU does in a second: macs=2e10,bytes=1e10,... (below)");
  command->add_option("--backend", options.backend, "Who runs the stages")
      ->capture_default_str()
      ->type_name(kBackendType);
  add_import_options(command, options.import);
  add_backend_options(command, options.engine);
}

void add_planning_options(CLI::App* command, PlanOptions& options) {
  command
      ->add_option(
          "--segments-per-device", options.segments_per_device,
          "Stages that a device may run in turn; 1: a device is one stage. More than 1 with "
          "--replicas: good plans are found, hardly ever proved")
      ->capture_default_str()
      ->check(whole_number(1, 4096));
  command->add_flag(
      "--replicas", options.replicas,
      "Let stages run on several devices in turn; with several segments per device good "
      "plans are found, hardly ever proved");
  command->add_option("--goal", options.goal, "throughput or latency")
      ->capture_default_str()
      ->check(one_of({"throughput", "latency"}));
  command
      ->add_option(
          "--latency-cap", options.latency_cap,
          "The most that one frame may take: seconds, or the unit of a workload's file; --goal "
          "latency counts a workload's CPU cores as without limit, this does not")
      ->check(not_negative_number());
  command->add_option("--deadline", options.deadline, "Seconds to search, at most")
      ->capture_default_str()
      ->check(not_negative_number());
  command->add_option("--split", options.split,
                      "A split to start from and never fall behind: device sets as JSON");
}

}  // namespace

void declare_plan(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<PlanOptions>();
  auto* command = add_command(
      app, "plan", "Finds the best pipeline for a network and devices, with a proof.", kPlanFooter);
  add_problem_options(command, options->problem);
  add_idle_option(command, options->problem);
  add_model_options(command, options->problem);
  add_planning_options(command, *options);
  command->add_option("--svg", options->svg, "Draw the graph and the loads into this file")
      ->check(not_empty("a file"));
  command->add_flag("--what-if", options->what_if,
                    "Also tell the cost with one more device, more bandwidth, half the memory");
  command->add_flag("--pareto", options->pareto,
                    "Also list plans for fewer devices, lower latency and less memory");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([&chosen, options] {
    if (options->problem.model.empty() == options->problem.workload.empty()) {
      throw CLI::RequiredError(
          "argument 'model' is missing: expected a model (.onnx), or a planning problem by "
          "--workload, as "
          "in "
          "'penstock plan model.onnx -o model.penstock'",
          CLI::ExitCodes::RequiredError);
    }
    check_form_of_devices(options->problem);
    chosen = [options] { return run(*options); };
  });
}

}  // namespace penstock::cli
