// penstock plan: the best pipeline, with its proof.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>

#include "penstock/cli/command.h"
#include "penstock/cli/interrupt.h"
#include "penstock/cli/plan_report.h"
#include "penstock/cli/text.h"
#include "penstock/planner/solve.h"
#include "penstock/planner/svg.h"
#include "penstock/planner/workload.h"

namespace penstock::cli {
namespace {

struct Options {
  std::filesystem::path workload;
  std::optional<int> devices, cpus;
  std::optional<double> memory;
  double communication_factor = 1;
  int segments_per_device = 1;
  bool replicas = false;
  std::string goal = "throughput";
  std::optional<double> latency_cap;
  double deadline = 10;
  std::filesystem::path split;
  std::filesystem::path svg;
  bool pareto = false, what_if = false, json = false;
};

planner::Goal goal_of(const Options& options) {
  return options.goal == "latency" ? planner::Goal::kLatency : planner::Goal::kThroughput;
}

Result<planner::Problem> read_problem(const Options& options) {
  planner::WorkloadOptions workload;
  workload.devices = options.devices;
  workload.cpus = options.cpus;
  workload.memory = options.memory;
  workload.communication_factor = options.communication_factor;
  workload.goal = goal_of(options);
  return planner::read_workload(options.workload, workload);
}

/// The split that --split names.
Result<planner::Split> read_split(const Options& options, const planner::Problem& problem) {
  std::ifstream in(options.split, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto place = "'" + options.split.string() + "'";
  if (!in) return not_found(place, ": cannot be read");
  auto split = planner::parse_workload_split(text, problem);
  if (!split) return std::move(split).error().within(place);
  return split;
}

Result<planner::Options> to_planner_options(const Options& options,
                                            const planner::Problem& problem) {
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

Status write_svg(const std::filesystem::path& file, const std::string& svg) {
  std::ofstream out(file, std::ios::binary);
  out << svg;
  if (out.flush()) return {};
  return make_error(Code::kPermissionDenied, "'", file.string(), "': cannot be written");
}

/// Solves the problem and reports all that the options ask for.
Result<int> plan(const planner::Problem& problem, const planner::Options& planning,
                 const Options& options) {
  PENSTOCK_TRY(const auto answer, planner::solve(problem, planning));
  if (!options.svg.empty()) {
    PENSTOCK_CHECK_OK(write_svg(options.svg, planner::to_svg(problem, planning, answer)));
  }
  Json json = answer_json(problem, planning, answer);
  std::string text = answer_text(problem, planning, answer);
  if (options.what_if) {
    const auto items = planner::what_if(problem, planning, options.deadline);
    json["what_if"] = what_if_json(items);
    text += what_if_text(items, answer);
  }
  if (options.pareto) {
    const auto front = planner::pareto_front(problem, planning, options.deadline);
    json["pareto"] = pareto_json(problem, front);
    text += pareto_text(front);
  }
  if (options.json) {
    print_json(json);
  } else {
    print(text);
  }
  return kOk;
}

Result<int> run(const Options& options) {
  const InterruptGuard guard;
  PENSTOCK_TRY(const auto problem, read_problem(options));
  PENSTOCK_TRY(const auto planning, to_planner_options(options, problem));
  return plan(problem, planning, options);
}

constexpr const char* kFooter =
    R"(Finds the split with the least period (the largest load of a device), or with --goal latency the
one with the least time of one frame, and a lower bound that no split can beat. Where both meet the
plan is proved best; else the gap between them is told. Ctrl-C ends the search with the best so far.

A workload is a planning problem in the JSON format of the dnn-partitioning project (Tarnawski et al.,
NeurIPS 2020): nodes with a time on each kind of device, edges with a cost. Times have the file's unit.

Examples:
  penstock plan --workload bert24.json
  penstock plan --workload bert24.json --devices 8 --cpus 0 --memory 17e9 --json
  penstock plan --workload bert24.json --segments-per-device 4 --deadline 10 --svg plan.svg
  penstock plan --workload bert24.json --goal latency
  penstock plan --workload bert24.json --what-if --pareto)";

void add_problem_options(CLI::App* command, Options& options) {
  command->add_option("--workload", options.workload, "The planning problem, a JSON file")
      ->required();
  command->add_option("--devices", options.devices, "Accelerators; default: the file's")
      ->check(CLI::Range(0, 4096));
  command->add_option("--cpus", options.cpus, "CPU cores; default: the file's")
      ->check(CLI::Range(0, 4096));
  command->add_option("--memory", options.memory, "Bytes of each accelerator; default: the file's")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--communication-factor", options.communication_factor,
                   "Multiplies the cost of every edge")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
}

void add_planning_options(CLI::App* command, Options& options) {
  command
      ->add_option("--segments-per-device", options.segments_per_device,
                   "Stages that a device may run in turn; 1: a device is one stage")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  command->add_flag("--replicas", options.replicas, "Let stages run on several devices in turn");
  command->add_option("--goal", options.goal, "throughput or latency")
      ->capture_default_str()
      ->check(CLI::IsMember({"throughput", "latency"}));
  command->add_option("--latency-cap", options.latency_cap, "The most that one frame may take")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--deadline", options.deadline, "Seconds to search, at most")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command->add_option("--split", options.split,
                      "A split to start from and never fall behind: device sets as JSON");
}

}  // namespace

void declare_plan(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  auto* command = add_command(
      app, "plan", "Finds the best pipeline for a network and devices, with a proof.", kFooter);
  add_problem_options(command, *options);
  add_planning_options(command, *options);
  command->add_option("--svg", options->svg, "Draw the graph and the loads into this file");
  command->add_flag("--what-if", options->what_if,
                    "Also tell the cost with one more device, more bandwidth, half the memory");
  command->add_flag("--pareto", options->pareto,
                    "Also list plans for fewer devices and for lower latency");
  command->add_flag("--json", options->json, "Print JSON");
  set_action(command, chosen, options, run);
}

}  // namespace penstock::cli
