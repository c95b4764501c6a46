// penstock bench: a pipeline beside the engines alone, measured in turn.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <spdlog/spdlog.h>

#include "penstock/app/app.h"
#include "penstock/base/quantile.h"
#include "penstock/base/thread.h"
#include "penstock/base/words.h"
#include "penstock/cli/command.h"
#include "penstock/cli/inputs.h"
#include "penstock/cli/interrupt.h"
#include "penstock/cli/json.h"
#include "penstock/cli/numbers.h"
#include "penstock/cli/plugins.h"
#include "penstock/cli/progress.h"
#include "penstock/cli/show_verdict.h"
#include "penstock/cli/source.h"
#include "penstock/cli/text.h"
#include "penstock/cli/wait_or_end.h"
#include "penstock/cli/watching.h"
#include "penstock/cost/profiler.h"
#include "penstock/device/affinity.h"
#include "penstock/device/cgroup.h"
#include "penstock/device/device.h"
#include "penstock/device/topology.h"
#include "penstock/frames/source.h"
#include "penstock/measure/rounds.h"
#include "penstock/measure/side.h"
#include "penstock/measure/slow_runs.h"
#include "penstock/measure/taken_frames.h"
#include "penstock/plan/bound.h"
#include "penstock/plan/stream_options.h"
#include "penstock/session/identify.h"
#include "penstock/session/verify.h"

namespace penstock::cli {
namespace {

namespace fs = std::filesystem;

struct BenchOptions {
  SourceArguments source;
  frames::SourceOptions inputs;
  WatchArguments watch;
  fs::path model;
  double seconds = 10;
  int in_flight = 0;
  bool check = false;
  bool json = false;
};

constexpr std::uint64_t kRing = 16;

struct BenchReport {
  std::string model;
  std::vector<int> cpus;
  std::optional<double>
      cpu_quota;  ///< Of the control group, where it does not let all of them run.
  std::vector<measure::Measured> sides;
  plan::Plan plan;
  pipeline::Stats stats;
  ModelFile whole;                    ///< Where it had to be made.
  std::vector<std::string> missing;   ///< Ways that cannot be had, with the reason.
  std::vector<std::string> left_out;  ///< Of the user's frames, with the reason.
  std::vector<std::string> random;    ///< Inputs that the user's frames leave.
  std::string remark;                 ///< What the pipeline is compared with.
  std::optional<measure::VerifyReport> check;
  bool interrupted = false;
  Status recorded;  ///< Whether --record was written.
};

/// The CPUs that the plan's stages use, ascending; all of the process where they use none.
std::vector<int> cpus_of(const plan::Plan& plan) {
  std::set<int> cpus;
  for (const auto& stage : plan.stages) {
    for (const auto& device : stage.devices) cpus.insert(device.cpus.begin(), device.cpus.end());
  }
  if (cpus.empty()) return device::inherited_cpus();
  return {cpus.begin(), cpus.end()};
}

/// Whether its plan is an application's, which is made from no one file.
bool is_of_application(const plan::Plan& plan) {
  return plan.origin.model_file.empty() && plan.model_hash.empty();
}

/// The model that the other sides run, with a remark where it is not the one given.
Result<fs::path> plain_file(const BenchOptions& options, const plan::Package& package,
                            const backend::Registry& backends, BenchReport& report) {
  const auto& [source, given] = std::tie(options.source.file, options.model);
  if (identify(source) == FileKind::kModel) return source;
  if (!given.empty()) {
    PENSTOCK_CHECK_OK(check_model(given));
    if (match_model(given, package, backends) != Match::kOther) return given;
    return invalid_argument("--model '", given.string(), "': not the model that package '",
                            source.string(), "' was made from",
                            is_of_application(package.plan)
                                ? "; an application is made from no one model: leave the option out"
                            : package.plan.origin.model_file.empty()
                                ? ""
                                : ", which was '" + package.plan.origin.model_file + "'");
  }
  if (auto found = find_model(package.plan.origin, source); !found.empty()) {
    report.remark = "onnxruntime runs '" + found.string() + "', which the package was made from";
    return found;
  }
  report.remark =
      is_of_application(package.plan)
          ? "the whole model is not at hand, as an application is made from no one file, so "
            "onnxruntime runs its stages joined to one model"
          : "the whole model is not at hand, so onnxruntime runs the package's stages joined to "
            "one model; give the file as it was with --model";
  spdlog::warn("{}", report.remark);
  PENSTOCK_TRY(report.whole, write_joined(package));
  return report.whole.file;
}

/// The same with the inputs bound that the package binds, in a temporary folder.
Result<fs::path> bound_file(const fs::path& file, const BenchOptions& options,
                            const plan::Package& package, const backend::Registry& backends,
                            BenchReport& report) {
  if (file == report.whole.file) return file;
  PENSTOCK_TRY(const auto bound, plan::read_bound_values(package.plan, package.folder));
  PENSTOCK_TRY(report.whole, bind_model(file, bound, backends, options.source.engine.custom_ops));
  return report.whole.file;
}

/// The model that the engines run, as the user knows it and as they get it; empty: no one model
/// does what the package does.
struct Alone {
  fs::path known, file;
};

Result<Alone> find_alone(const BenchOptions& options, const plan::Package& package,
                         const backend::Registry& backends, BenchReport& report) {
  const auto why = why_no_single_model(package.plan);
  if (!why.empty() && !options.model.empty()) {
    return invalid_argument("--model: no engine alone runs what '", options.source.file.string(),
                            "' does, as ", why, "; leave the option out");
  }
  if (!why.empty()) return Alone();
  PENSTOCK_TRY(const auto known, plain_file(options, package, backends, report));
  PENSTOCK_TRY(const auto file, bound_file(known, options, package, backends, report));
  return Alone{known, file};
}

/// The engines alone, each with the whole model.
Status add_plain_sides(const Alone& alone, const plan::Package& package,
                       const backend::Registry& backends, bool all_cpus, const measure::Ring& ring,
                       measure::Sides& sides, BenchReport& report) {
  const auto& [known, file] = alone;
  measure::PlainRequest request{file, {}, report.cpus, all_cpus, &package, &ring};
  request.custom_ops = plan::custom_op_files(package);
  TerminalLine line;
  request.begins = [&](const std::string& name) { line.show("bench  starting " + name); };
  auto plain = measure::make_plain_sides(request, backends);
  for (auto& side : plain.sides) sides.push_back(std::move(side));
  for (const auto& [name, reason] : plain.missing) {
    // A branch that a bound input rules out may be one that an engine refuses.
    const bool needed =
        package.plan.bound_inputs.empty() &&
        (package.plan.states.empty() ? name.starts_with("onnxruntime") : name == "onnxruntime");
    if (needed) return Error(reason).within({Where::kWay, name});
    Error why = reason;
    Where* const model = why.find(Where::kModel);
    if (model != nullptr && model->name == file.string()) model->name = known.string();
    report.missing.push_back(name + ": " + why.message());
  }
  return {};
}

/// What stands beside a pipeline that no engine runs alone, `why`: the same calls in turn.
Status add_one_at_a_time(const std::string& why, pipeline::Pipeline& pipeline,
                         const measure::Ring& ring, measure::Sides& sides, BenchReport& report) {
  sides.push_back(measure::pipeline_side(pipeline, ring, 1, "one-at-a-time"));
  report.missing.push_back("the engines alone: they cannot run what it does, as " + why);
  return {};
}

Result<std::vector<measure::Measured>> measure_once(const measure::Sides& sides, double seconds) {
  measure::Rounds rounds{.seconds = seconds, .stopped = interrupted};
  Progress progress("bench", "rounds", static_cast<std::size_t>(rounds.count) * sides.size());
  rounds.progress = [&](std::size_t done, std::size_t) { progress.show(done); };
  return measure::measure_in_turn(sides, rounds);
}

/// A way that fails on these frames is left out, with its reason; not the pipeline, nor what tells
/// whether the frames are at fault.
Status measure_sides(const BenchOptions& options, measure::Sides sides, BenchReport& report) {
  for (;;) {
    auto measured = measure_once(sides, options.seconds);
    if (measured) {
      report.sides = *std::move(measured);
      report.interrupted = interrupted();
      return {};
    }
    const Where* const way = measured.error().find(Where::kWay);
    const bool spared = way != nullptr && way->name.starts_with("openvino");
    if (!spared) return std::move(measured).error();
    report.missing.push_back(measured.error().message());
    std::erase_if(sides, [&](const auto& side) { return side->name() == way->name; });
  }
}

/// Enough that every worker always has its next frame, and that a sleeper is woken for several.
int choose_in_flight(const BenchOptions& options, const plan::Plan& plan, int limit) {
  if (options.in_flight > 0) return std::min(options.in_flight, limit);
  std::size_t workers = 0;
  for (const auto& stage : plan.stages) workers += stage.devices.size();
  constexpr int kLeast = 64;
  return std::min(std::max(static_cast<int>(4 * workers), kLeast), limit);
}

/// The sides beside the pipeline, then all in turn.
Status measure_all(const BenchOptions& options, const Alone& alone, const plan::Package& package,
                   const backend::Registry& backends, bool all_cpus, const measure::Ring& ring,
                   pipeline::Pipeline& pipeline, BenchReport& report) {
  measure::Sides sides;
  sides.push_back(measure::pipeline_side(
      pipeline, ring, choose_in_flight(options, package.plan, pipeline.in_flight_limit())));
  const auto why = why_no_single_model(package.plan);
  PENSTOCK_CHECK_OK(why.empty()
                        ? add_plain_sides(alone, package, backends, all_cpus, ring, sides, report)
                        : add_one_at_a_time(why, pipeline, ring, sides, report));
  return measure_sides(options, std::move(sides), report);
}

/// What computes a frame without the pipeline.
Result<std::unique_ptr<measure::Reference>> reference_of(const BenchOptions& options,
                                                         const Alone& alone,
                                                         const plan::Package& package,
                                                         const backend::Registry& backends) {
  if (!alone.file.empty()) return measure::whole_reference(alone.file, package, backends, {});
  PENSTOCK_TRY(auto settings, completed({}, options.source));
  settings.warn = nullptr;  // The pipeline's own start tells it.
  return measure::one_at_a_time(package, backends, settings, {});
}

/// The frames that are given, without those that the reference refuses; none: random ones are run.
Result<measure::Ring> given_frames(const BenchOptions& options, const Alone& alone,
                                   const plan::Package& package,
                                   const frames::SourceOptions& inputs,
                                   const backend::Registry& backends, BenchReport& report) {
  if (!frames::has_files(inputs)) return measure::Ring();
  PENSTOCK_TRY(auto read, frames::read_named_frames(package.plan.inputs, inputs));
  report.left_out = std::move(read.left_out);
  report.random = std::move(read.random);
  const auto reference = reference_of(options, alone, package, backends);
  if (!reference) return std::move(read.frames);  // What runs it next tells why.
  TerminalLine line;
  line.show("bench  running the reference on the frames");
  constexpr double kShare = 0.2;  // Of the time that is measured.
  const auto tell = [&] {
    spdlog::warn("{}", measure::tell_long_run(package.plan.model, cost::kLongRun, false));
  };
  measure::WatchedReference watched(**reference, tell, cost::kLongRun);
  auto taken = measure::take_frames(watched, {.frames = read.frames,
                                              .names = read.names,
                                              .seconds = kShare * options.seconds,
                                              .least = kRing,
                                              .stopped = interrupted});
  for (const auto& note : taken.notes) spdlog::warn("--input: {}", note);
  std::ranges::move(taken.notes, std::back_inserter(report.left_out));
  return std::move(taken.frames);
}

/// What `penstock verify` says of it, on the same frames, before anything is measured.
Status check_outputs(const BenchOptions& options, const plan::Package& package,
                     const measure::Ring& given, const backend::Registry& backends,
                     BenchReport& report) {
  TerminalLine line;
  line.show("bench  checking the outputs");
  PENSTOCK_TRY(const auto settings, completed({}, options.source));
  PENSTOCK_TRY(auto pipeline, start_source(options.source, package, {}, backends));
  Opened opened{package, std::move(pipeline), options.source.file};
  penstock::VerifyOptions asked;
  asked.model = options.model;
  if (identify(options.source.file) == FileKind::kModel) asked.model = options.source.file;
  asked.tolerance = tolerance_of(package);
  asked.random = options.inputs.random;
  asked.stopped = interrupted;
  asked.given = given;
  PENSTOCK_TRY(report.check, penstock::verify(opened, std::move(asked), settings, backends));
  return {};
}

/// What is run again and again: the frames that are given, or random ones.
Result<measure::Ring> ring_of(const plan::Plan& plan, const frames::SourceOptions& inputs,
                              const measure::Ring& given) {
  if (given.empty()) return frames::random_frames(plan.inputs, inputs.random, kRing);
  return frames::repeated(given, kRing, !plan.states.empty());
}

/// On a thread that may run on the plan's CPUs only, so that no side has more than the others.
Result<BenchReport> compare(const BenchOptions& options, const plan::Package& package,
                            const backend::Registry& backends) {
  BenchReport report;
  report.model = options.source.file.string();
  report.plan = package.plan;
  report.cpus = cpus_of(package.plan);
  report.cpu_quota = device::cpu_quota();
  if (report.cpu_quota >= static_cast<double>(report.cpus.size())) report.cpu_quota.reset();
  const auto inherited = device::inherited_cpus();
  PENSTOCK_TRY(const auto inputs, frames::with_bound(options.inputs, package));
  PENSTOCK_TRY(const auto alone, find_alone(options, package, backends, report));
  PENSTOCK_TRY(const auto given, given_frames(options, alone, package, inputs, backends, report));
  PENSTOCK_TRY(auto ring, ring_of(package.plan, inputs, given));
  if (options.check) PENSTOCK_CHECK_OK(check_outputs(options, package, given, backends, report));
  pipeline::Options settings;
  TerminalLine line;
  line.show("bench  starting the pipeline");
  PENSTOCK_TRY(auto started, start_source(options.source, package, settings, backends));
  const std::shared_ptr<pipeline::Pipeline> pipeline = std::move(started);
  PENSTOCK_TRY(const auto watching, watch(options.watch, package, pipeline));
  if (report.cpus != inherited) PENSTOCK_CHECK_OK(device::pin_this_thread(report.cpus));
  const bool all_cpus = report.cpus == inherited;
  auto measured = measure_all(options, alone, package, backends, all_cpus, ring, *pipeline, report);
  if (!measured) {
    const auto advice = advice_on_frame(
        measured.error(), options.inputs, package.plan.inputs,
        {plan::names_of_bound(package.plan.bound_inputs), report.random}, frame_like_all(given));
    return std::move(measured).error().adding(advice);
  }
  report.recorded = stop(watching);
  report.stats = pipeline->stats();
  return report;
}

Json run_json(measure::Measured& side) {
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

Json to_json(BenchReport& report) {
  Json check = nullptr;
  if (report.check) check = Json::parse(measure::to_json(*report.check));
  Json runs = Json::array();
  for (auto& side : report.sides) runs.push_back(run_json(side));
  return {{"model", report.model},
          {"cores", report.cpus.size()},
          {"cpus", report.cpus},
          {"cpu_quota", report.cpu_quota ? Json(*report.cpu_quota) : Json(nullptr)},
          {"runs", std::move(runs)},
          {"stages", stages_json(report.stats)},
          {"interrupted", report.interrupted},
          {"missing", report.missing},
          {"left_out", report.left_out},
          {"check", std::move(check)},
          {"remark", report.remark}};
}

std::string to_text(BenchReport& report) {
  Table table(
      {"run", ">frames/s", ">penstock is", ">p50", ">p90", ">p99", ">max", ">in flight", "what"});
  const double ours = median(report.sides.front().rates);
  for (auto& side : report.sides) {
    const double rate = median(side.rates);
    const bool is_ours = &side == &report.sides.front();
    const auto latency = [&](double share) {
      return side.latencies_ns.empty() ? "-" : duration(quantile(side.latencies_ns, share));
    };
    table.add({side.name, rate > 0 ? number(rate, rate < 100 ? 2 : 0) : "-",
               is_ours || rate <= 0 ? "" : number(ours / rate, 2) + " x", latency(0.5),
               latency(0.9), latency(0.99), latency(1), std::to_string(side.in_flight),
               side.explain});
  }
  std::string text = concat(
      "model '", report.model, "' on cpu ", ranges(report.cpus),
      report.cpu_quota
          ? concat(" with the time of ", number(*report.cpu_quota, 2), " CPUs (cgroup quota)")
          : "",
      ": median of ", counted(report.sides.front().rates.size(), "round"),
      ", taken in turn; latency is push to pop", report.interrupted ? " (interrupted)" : "",
      "\n\n");
  text += table.print() + "\n" + stage_table(report.stats);
  for (const auto& missing : report.missing) text += "\nnot measured: " + missing + "\n";
  if (!report.remark.empty()) text += "\n" + report.remark + "\n";
  if (report.check) text += "\n" + verdict_text(*report.check);
  return text;
}

Result<plan::Package> read_shown_source(const SourceArguments& source,
                                        const backend::Registry& backends) {
  TerminalLine line;
  line.show(concat("bench  reading '", source.file.string(), "'"));
  return load_source(source, backends);
}

Result<int> run(const BenchOptions& options) {
  PENSTOCK_TRY(const auto topology, device::read_topology());
  PENSTOCK_CHECK_OK(device::check_here(topology));
  const auto backends = load_backends();
  PENSTOCK_TRY(auto package, read_shown_source(options.source, backends));
  plan::keep_all_frames(package.plan);
  const InterruptGuard guard;
  PENSTOCK_TRY(auto compared, start_async([&] { return compare(options, package, backends); }));
  auto report = wait_or_end(std::move(compared));
  if (!report) return report.error();
  if (options.json) {
    print_json(to_json(*report));
  } else {
    print(to_text(*report));
  }
  PENSTOCK_CHECK_OK(report->recorded);
  if (report->check) log_findings(*report->check);
  if (report->interrupted) return interrupt_code();
  return report->check ? verdict_code(*report->check) : kOk;
}

constexpr const char* kBenchFooter =
    R"(Several ways take turns in one run, five rounds each, and the median counts: the pipeline; ONNX
Runtime with its default threads, and with one session on each core; OpenVINO, where it is there and
takes the model, with its latency and with its throughput hint, and with one model of one thread on
each core, in f32. All take their frames from one ring of 16 seeded inputs, write into outputs bound
beforehand, and may use the plan's CPUs and no others. The engines run the model's file as it is: --model, or the one that the package was made from
where it is still there and unchanged. An application, or a package with functions or several
networks, which no engine runs alone, is measured beside itself with one frame at a time. Streams that the package has
take turns, and its frames a second are those of all. Latency is push to pop, with as many frames in flight as the table says.

Examples:
  penstock bench model.onnx                              one replica on each CPU
  penstock bench model.penstock --model model.onnx --seconds 30
  penstock bench model.penstock --model model.onnx --in-flight 1 --json
  penstock bench model.penstock --check                  are the outputs right, and how fast
  penstock bench app.yaml --input image=photo.png        one frame after the other, or all at work)";

}  // namespace

void declare_bench(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<BenchOptions>();
  auto* command = add_command(
      app, "bench", "Measures a pipeline beside the engines alone: throughput and latency.",
      kBenchFooter);
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
      ->check(positive_count());
  add_input_options(command, options->inputs);
  add_watch_options(command, options->watch);
  command->add_flag(
      "--check", options->check,
      "Judge the outputs first, as 'penstock verify' does: exit code 1 where they are "
      "wrong, 3 where that cannot be told");
  command->add_flag("--json", options->json, "Print the report as JSON");
  set_action(command, chosen, options, run);
}

}  // namespace penstock::cli
