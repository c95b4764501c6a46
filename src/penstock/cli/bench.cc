// penstock bench: a pipeline beside ONNX Runtime alone, measured in turn.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include <spdlog/spdlog.h>

#include "penstock/cli/bench_side.h"
#include "penstock/cli/command.h"
#include "penstock/cli/inputs.h"
#include "penstock/cli/interrupt.h"
#include "penstock/cli/json.h"
#include "penstock/cli/numbers.h"
#include "penstock/cli/progress.h"
#include "penstock/cli/quantile.h"
#include "penstock/cli/source.h"
#include "penstock/cli/text.h"
#include "penstock/device/device.h"
#include "penstock/pipeline/affinity.h"

namespace penstock::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  SourceArguments source;
  InputArguments inputs;
  fs::path model;
  double seconds = 10;
  int in_flight = 0;
  bool json = false;
};

constexpr std::uint64_t kRing = 16;
constexpr int kRounds = 5;
constexpr double kWarmUpShare = 0.2;    ///< Of a round's measured time, in addition to it.
constexpr double kLongestWarmUp = 0.2;  ///< Seconds.

struct Measured {
  std::string name, explain;
  int in_flight = 1;
  std::vector<double> rates;  ///< Of each round.
  std::vector<float> latencies_ns;
};

struct Report {
  std::string model;
  std::vector<int> cpus;
  std::vector<Measured> sides;
  plan::Plan plan;
  pipeline::Stats stats;
  JoinedModel joined;  ///< Where the whole model is not at hand.
  std::string remark;  ///< What the pipeline is compared with.
  bool interrupted = false;
};

/// The CPUs that the plan's stages use, ascending.
std::vector<int> cpus_of(const plan::Plan& plan) {
  std::set<int> cpus;
  for (const auto& stage : plan.stages) {
    for (const auto& device : stage.devices) cpus.insert(device.cpus.begin(), device.cpus.end());
  }
  return {cpus.begin(), cpus.end()};
}

/// The model that the other sides run, with a remark where it is not the one given.
Result<fs::path> plain_file(const Options& options, const plan::Package& package,
                            const backend::Registry& backends, Report& report) {
  const auto& [source, given] = std::tie(options.source.file, options.model);
  if (!names_package(source)) return source;
  if (!given.empty()) {
    if (match_model(given, package.plan, backends) != Match::kOther) return given;
    return invalid_argument("--model '", given.string(), "': not the model that package '",
                            source.string(), "' was made from",
                            package.plan.origin.model_file.empty()
                                ? ""
                                : ", which was '" + package.plan.origin.model_file + "'");
  }
  if (auto found = find_model(package.plan.origin, source); !found.empty()) {
    report.remark = "onnxruntime runs '" + found.string() + "', which the package was made from";
    return found;
  }
  report.remark =
      "the whole model is not at hand, so onnxruntime runs the package's stages joined to one "
      "model; give the file as it was with --model";
  spdlog::warn("{}", report.remark);
  PENSTOCK_TRY(report.joined, write_joined(package));
  return report.joined.file;
}

using Sides = std::vector<std::unique_ptr<Side>>;

Result<Sides> make_sides(const PlainRequest& request, const backend::Registry& backends) {
  Sides sides;
  PENSTOCK_TRY(const auto backend, backends.find("onnxruntime"));
  for (const auto& [name, make] : {std::pair("onnxruntime", &default_side),
                                   std::pair("onnxruntime-per-core", &per_core_side)}) {
    auto side = make(*backend, request);
    if (!side) return std::move(side).error().within(name);
    sides.push_back(*std::move(side));
  }
  return sides;
}

Status measure(const Options& options, Sides& sides, Report& report) {
  for (const auto& side : sides) {
    report.sides.push_back({side->name(), side->explain(), side->in_flight(), {}, {}});
  }
  const double share = options.seconds / (kRounds * static_cast<double>(sides.size()));
  const auto to_ns = [](double seconds) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(seconds));
  };
  const Round round{to_ns(std::min(share * kWarmUpShare, kLongestWarmUp)), to_ns(share)};
  Progress progress("bench", "rounds", kRounds * sides.size());
  std::uint64_t done = 0;
  for (std::size_t number = 0; number < kRounds; ++number) {
    for (std::size_t i = 0; i < sides.size(); ++i) {
      const std::size_t side = (number + i) % sides.size();  // Nobody is always first.
      progress.show(done++);
      auto sample = sides[side]->measure(round);
      if (!sample) return std::move(sample).error().within(sides[side]->name());
      auto& measured = report.sides[side];
      measured.rates.push_back(sample->frames_per_second);
      measured.latencies_ns.insert(measured.latencies_ns.end(), sample->latencies_ns.begin(),
                                   sample->latencies_ns.end());
      report.interrupted = interrupted();
      if (report.interrupted) return {};
    }
  }
  return {};
}

Result<Ring> make_ring(const Options& options, const plan::Plan& plan) {
  if (!has_files(options.inputs)) return random_frames(plan.inputs, options.inputs, kRing);
  PENSTOCK_TRY(auto ring, read_frames(plan.inputs, options.inputs));
  const std::size_t given = ring.size();
  for (std::size_t i = given; i < kRing; ++i) ring.push_back(ring[i % given]);
  return ring;
}

/// Enough that every worker always has its next frame, and that a sleeper is woken for several.
int choose_in_flight(const Options& options, const plan::Plan& plan, int limit) {
  if (options.in_flight > 0) return std::min(options.in_flight, limit);
  std::size_t workers = 0;
  for (const auto& stage : plan.stages) workers += stage.devices.size();
  constexpr int kLeast = 64;
  return std::min(std::max(static_cast<int>(4 * workers), kLeast), limit);
}

/// On a thread that may run on the plan's CPUs only, so that no side has more than the others.
Result<Report> compare(const Options& options, const plan::Package& package,
                       const backend::Registry& backends) {
  Report report;
  report.model = options.source.file.string();
  report.plan = package.plan;
  report.cpus = cpus_of(package.plan);
  const auto inherited = device::inherited_cpus();
  PENSTOCK_TRY(const Ring ring, make_ring(options, package.plan));
  pipeline::Options settings;
  PENSTOCK_TRY(const auto pipeline, start_source(options.source, package, settings, backends));
  if (report.cpus != inherited) PENSTOCK_CHECK_OK(pipeline::pin_this_thread(report.cpus));
  Sides sides;
  sides.push_back(pipeline_side(
      *pipeline, ring, choose_in_flight(options, package.plan, pipeline->in_flight_limit())));
  PENSTOCK_TRY(const auto file, plain_file(options, package, backends, report));
  PlainRequest request{file, {}, report.cpus, report.cpus == inherited, &package.plan, &ring};
  for (const auto& library : package.plan.custom_ops) {
    request.custom_ops.push_back(package.folder / library);
  }
  PENSTOCK_TRY(auto plain, make_sides(request, backends));
  for (auto& side : plain) sides.push_back(std::move(side));
  PENSTOCK_CHECK_OK(measure(options, sides, report));
  report.stats = pipeline->stats();
  return report;
}

Json run_json(Measured& side) {
  auto& latencies = side.latencies_ns;
  return {{"name", side.name},
          {"frames_per_second", median(side.rates)},
          {"latency_ms",
           {{"p50", quantile(latencies, 0.5) / 1e6},
            {"p90", quantile(latencies, 0.9) / 1e6},
            {"p99", quantile(latencies, 0.99) / 1e6},
            {"max", quantile(latencies, 1) / 1e6}}},
          {"in_flight", side.in_flight},
          {"rounds_frames_per_second", side.rates}};
}

Json to_json(Report& report) {
  Json runs = Json::array();
  for (auto& side : report.sides) runs.push_back(run_json(side));
  return {{"model", report.model},
          {"cores", report.cpus.size()},
          {"cpus", report.cpus},
          {"runs", std::move(runs)},
          {"stages", stages_json(report.plan, report.stats)},
          {"interrupted", report.interrupted},
          {"remark", report.remark}};
}

std::string to_text(Report& report) {
  Table table(
      {"run", ">frames/s", ">penstock is", ">p50", ">p90", ">p99", ">max", ">in flight", "what"});
  const double ours = median(report.sides.front().rates);
  for (auto& side : report.sides) {
    const double rate = median(side.rates);
    const bool is_ours = &side == &report.sides.front();
    auto& latencies = side.latencies_ns;
    table.add({side.name, number(rate, rate < 100 ? 2 : 0),
               is_ours || rate <= 0 ? "" : number(ours / rate, 2) + " x",
               duration(quantile(latencies, 0.5)), duration(quantile(latencies, 0.9)),
               duration(quantile(latencies, 0.99)), duration(quantile(latencies, 1)),
               std::to_string(side.in_flight), side.explain});
  }
  std::string text =
      concat("model '", report.model, "' on cpu ", ranges(report.cpus), ": median of ",
             report.sides.front().rates.size(), " rounds, taken in turn; latency is push to pop",
             report.interrupted ? " (interrupted)" : "", "\n\n");
  text += table.print() + "\n" + stage_table(report.plan, report.stats);
  if (!report.remark.empty()) text += "\n" + report.remark + "\n";
  return text;
}

Result<int> run(const Options& options) {
  const auto backends = backend::Registry::load();
  PENSTOCK_TRY(const auto package, load_source(options.source, backends));
  const InterruptGuard guard;
  auto report =
      std::async(std::launch::async, [&] { return compare(options, package, backends); }).get();
  if (!report) return report.error();
  if (options.json) {
    print_json(to_json(*report));
  } else {
    print(to_text(*report));
  }
  return report->interrupted ? interrupt_code() : kOk;
}

constexpr const char* kFooter =
    R"(Three ways take turns in one run, five rounds each, and the median counts: the pipeline; ONNX Runtime
with its default threads; ONNX Runtime with one session on each core. All take their frames from one
ring of 16 seeded inputs, write into outputs bound beforehand, and may use the plan's CPUs and no
others. ONNX Runtime runs the model's file as it is: --model, or the one that the package was made from
where it is still there and unchanged. Latency is push to pop, with as many frames in
flight as the table says.

Examples:
  penstock bench model.onnx                              one replica on each CPU
  penstock bench model.pkg --model model.onnx --seconds 30
  penstock bench model.pkg --model model.onnx --in-flight 1 --json)";

}  // namespace

void declare_bench(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  auto* command = add_command(
      app, "bench", "Measures a pipeline beside ONNX Runtime alone: throughput and latency.",
      kFooter);
  add_source_options(command, options->source);
  command->add_option(
      "--model", options->model,
      "The model that the package was made from, for ONNX Runtime (default: that file, "
      "if unchanged)");
  command->add_option("--seconds", options->seconds, "Measured in all, shared by the ways")
      ->capture_default_str()
      ->check(positive_number());
  command
      ->add_option("--in-flight", options->in_flight,
                   "Frames between push and pop (default: 4 for each worker, at least 64)")
      ->check(positive_number());
  add_input_options(command, options->inputs);
  command->add_flag("--json", options->json, "Print the report as JSON");
  set_action(command, chosen, options, run);
}

}  // namespace penstock::cli
