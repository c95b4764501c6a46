// penstock build: a model and devices -> the measured best package.
#include "penstock/tune/build.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include <spdlog/spdlog.h>

#include "penstock/app/tune.h"
#include "penstock/base/thread.h"
#include "penstock/base/words.h"
#include "penstock/cli/command.h"
#include "penstock/cli/import_options.h"
#include "penstock/cli/inputs.h"
#include "penstock/cli/interrupt.h"
#include "penstock/cli/json.h"
#include "penstock/cli/numbers.h"
#include "penstock/cli/package_needs.h"
#include "penstock/cli/plugins.h"
#include "penstock/cli/progress.h"
#include "penstock/cli/report_text.h"
#include "penstock/cli/stream_options.h"
#include "penstock/cli/text.h"
#include "penstock/cli/wait_or_end.h"
#include "penstock/frames/source.h"
#include "penstock/plan/bound.h"
#include "penstock/plan/package.h"
#include "penstock/session/identify.h"
#include "penstock/session/session.h"
#include "penstock/site/build.h"
#include "penstock/site/reach.h"
#include "penstock/tune/budget.h"

namespace penstock::cli {
namespace {

struct BuildOptions {
  std::filesystem::path model, package, costs, rules;
  std::filesystem::path hosts;  ///< Instead of devices of this machine.
  bool standby = false;
  std::string devices;
  std::string goal = "throughput";
  std::string budget = "60s";
  std::int64_t most_parts = INT64_MAX;
  std::vector<std::string> backends;
  std::optional<double> tolerance;
  ImportArguments import;
  BackendArguments engine;
  frames::SourceOptions inputs;
  std::vector<std::string> states;
  std::vector<std::string> batches;
  std::string streams;
  bool refresh = false;
  bool json = false;
};

/// When a build last said what it does. It may write for as long as it takes.
class Signs {
 public:
  void note() {
    const std::scoped_lock lock(mutex_);
    last_ = Patience::Clock::now();
  }
  void note_that_it_writes() {
    const std::scoped_lock lock(mutex_);
    writes_ = true;
  }
  [[nodiscard]] Patience::Clock::time_point last() {
    const std::scoped_lock lock(mutex_);
    return writes_ ? Patience::Clock::now() : last_;
  }

 private:
  std::mutex mutex_;
  Patience::Clock::time_point last_;
  bool writes_ = false;
};

/// The database of costs; one in memory, with a warning, where there is none to be had.
Result<cost::Database> open_costs(const BuildOptions& options) {
  if (!options.costs.empty()) return cost::Database::open(options.costs);
  auto database = cost::Database::open(cost::Database::default_path());
  if (database) return database;
  spdlog::warn("{}; what is measured now will be forgotten", database.error().message());
  return cost::Database::in_memory();
}

Result<tune::Options> to_build_options(const BuildOptions& options) {
  tune::Options to;
  to.output = options.package;
  if (options.hosts.empty() && !options.devices.empty()) {
    auto devices = device::parse_devices(options.devices);
    if (!devices) return std::move(devices).error().within("--devices");
    to.devices = *std::move(devices);
  }
  to.goal = options.goal == "latency" ? tune::Goal::kLatency : tune::Goal::kThroughput;
  PENSTOCK_TRY(to.budget_seconds, tune::parse_budget(options.budget));
  to.refresh = options.refresh;
  to.most_parts = options.most_parts;
  to.backends = options.backends;
  to.rules = options.rules;
  PENSTOCK_TRY(to.backend_options, to_backend_options(options.engine));
  to.custom_ops = options.engine.custom_ops;
  to.tolerance = options.tolerance;
  to.random = options.inputs.random;
  PENSTOCK_TRY(to.states, to_states(options.states));
  PENSTOCK_TRY(to.streams, to_streams(options.streams));
  PENSTOCK_TRY(const auto batches, to_batches(options.batches));
  PENSTOCK_TRY(to.most_frames, tune::to_most_frames(batches));
  to.stopped = interrupted;
  return to;
}

Json now_json(const tune::Report& report) {
  Json ways = Json::array();
  for (const auto& way : report.now.listed()) {
    ways.push_back({{"name", way.name},
                    {"frames_per_second", way.frames_per_second},
                    {"latency_ms_p50", way.latency_seconds * 1e3},
                    {"spread", way.spread},
                    {"failure", way.failure}});
  }
  return ways;
}

std::string budget_text(const tune::Report& report, double budget) {
  if (report.minimum_seconds <= budget) return "";
  return concat("the budget of ", number(budget, 1), " s is less than the ",
                number(report.minimum_seconds, 1),
                " s that whole networks and the simple ways alone needed\n");
}

/// In the unit that tells it: "40 s", "12 min", "3.5 h".
std::string age_text(double seconds) {
  constexpr double kMinute = 60, kHour = 3600;
  if (seconds < kMinute) return concat(number(seconds, 0), " s");
  if (seconds < kHour) return concat(number(seconds / kMinute, 0), " min");
  return concat(number(seconds / kHour, 1), " h");
}

/// What this build made of what the database knew.
std::string known_text(const tune::Report& report) {
  if (!report.measured_again.empty()) {
    return concat("measured again: ", report.measured_again, "\n");
  }
  if (report.age_seconds <= 0) return "";
  return concat("chosen ", age_text(report.age_seconds), " ago; --refresh measures all again\n",
                report.due_again.empty()
                    ? ""
                    : concat("the next build measures again, for which this budget left no time: ",
                             report.due_again, "\n"));
}

/// What may be faster than a simple way that the chosen plan is not.
std::string_view advice_of(const BuildOptions& options) {
  const bool alone = options.batches.empty() && options.states.empty() && options.hosts.empty() &&
                     options.goal == "throughput" &&
                     identify(options.model) != FileKind::kApplication;
  return alone
             ? "a longer --budget may find a better plan, and several frames in one call (--batch "
               "8) one for many frames at hand; else run the file that way"
             : "a longer --budget may find a better plan, else run the file that way";
}

/// An application says at its nodes what a model is told here.
Status check_app_options(const BuildOptions& options) {
  const auto& import = options.import;
  if (import.shapes.empty() && import.constants.empty() && import.parameters.empty() &&
      !import.as_is && options.engine.custom_ops.empty() && options.states.empty() &&
      options.streams.empty()) {
    return {};
  }
  return invalid_argument("'", options.model.string(),
                          "': --shape, --constant, --parameter, --as-is, --custom-ops, --state "
                          "and --streams are for a model: an application says so at its nodes, in "
                          "'states' and in 'streams'");
}

Result<tune::Report> build_app(const BuildOptions& options, tune::Options to,
                               const backend::Registry& backends, cost::Database& database) {
  PENSTOCK_CHECK_OK(check_app_options(options));
  PENSTOCK_TRY(const auto application, app::read_yaml(options.model));
  if (frames::has_files(options.inputs)) {
    PENSTOCK_TRY(const auto package, app::pack(application, backends));
    PENSTOCK_TRY(to.frames, frames::read_frames(package.plan.inputs, options.inputs));
  }
  if (options.hosts.empty()) return app::build_app(application, to, backends, database);
  PENSTOCK_TRY(const auto all, read_hosts(options.hosts, options.engine));
  PENSTOCK_TRY(const auto reach, site::load_reach());
  return site::build_app_over(application, all, reach, {to, options.standby}, backends, database);
}

/// What is given may be given for the inputs that are bound, too; for states it is refused.
frames::SourceOptions with_bound(const BuildOptions& options, const graph::Graph& graph,
                                 const std::vector<plan::StateEdge>& states,
                                 const std::vector<plan::TensorInfo>& inputs_of_frames) {
  auto inputs = options.inputs;
  for (const auto& state : states) inputs.states.push_back(state.to);
  std::vector<std::pair<std::size_t, std::string>> places;
  for (const auto& [name, value, position] : graph.bound_inputs) {
    inputs.bound.emplace(name, value);
    places.emplace_back(position, name);
  }
  inputs.order = frames::order_of(inputs_of_frames, std::move(places));
  return inputs;
}

Result<tune::Report> build_over(const BuildOptions& options, const tune::Options& to,
                                const graph::Graph& graph, const backend::Registry& backends,
                                cost::Database& database) {
  PENSTOCK_TRY(auto all, read_hosts(options.hosts, options.engine));
  PENSTOCK_TRY(const auto reach, site::load_reach());
  return site::build_over(graph, std::move(all), reach, {to, options.standby}, backends, database);
}

Result<tune::Report> build_model(const BuildOptions& options, tune::Options to,
                                 const backend::Registry& backends, cost::Database& database) {
  PENSTOCK_TRY(const auto graph,
               import_file(options.model, options.import, backends, options.engine.custom_ops));
  PENSTOCK_TRY(to.import, to_import_options(options.import));
  const auto inputs = inputs_of(graph, to.states);
  std::vector<std::string> random;
  if (frames::has_files(options.inputs)) {
    PENSTOCK_TRY(auto read,
                 frames::read_named_frames(inputs, with_bound(options, graph, to.states, inputs)));
    to.frames = std::move(read.frames);
    to.frame_names = std::move(read.names);
    random = std::move(read.random);
  }
  auto built = options.hosts.empty() ? tune::build_model(graph, to, backends, database)
                                     : build_over(options, to, graph, backends, database);
  if (built) return built;
  // The frames are at fault only where the network itself fails on them.
  const bool on_frames = built.error().find(Where::kWay) != nullptr;
  const auto advice = on_frames
                          ? advice_on_frame(built.error(), options.inputs, inputs,
                                            {plan::names_of_bound(graph.bound_inputs), random},
                                            frame_like_all(to.frames))
                          : "";
  return std::move(built).error().adding(advice);
}

Result<int> run(const BuildOptions& options) {
  PENSTOCK_TRY(auto to, to_build_options(options));
  PENSTOCK_CHECK_OK(plan::check_target(options.package));
  const auto backends = load_backends();
  PENSTOCK_TRY(auto database, open_costs(options));
  const InterruptGuard guard;
  Progress progress("build", "% of the budget", 100);
  Signs signs;
  to.progress = [&](const std::string& what, double share) {
    spdlog::info("{}", what);
    progress.show(static_cast<std::uint64_t>(share * 100));
    signs.note();
  };
  to.on_write = [&] { signs.note_that_it_writes(); };
  to.warn = [](const std::string& what) { spdlog::warn("{}", what); };
  const bool is_app = identify(options.model) == FileKind::kApplication;
  PENSTOCK_TRY(auto running, start_async([&] {
                 return (is_app ? build_app : build_model)(options, to, backends, database);
               }));
  // A plan that is known already is worth the wait for a call that compiles another.
  auto built = wait_or_end(std::move(running), {.longest = std::chrono::seconds(20),
                                                .last_sign = [&] { return signs.last(); }});
  if (!built) return std::move(built).error();
  const auto report = *std::move(built);
  if (options.json) {
    auto json = Json::parse(tune::to_json(report));
    json["package"] = options.package.string();
    json["seconds"] = report.seconds;
    json["minimum_seconds"] = report.minimum_seconds;
    json["measured_parts"] = report.measured_parts;
    json["measured_plans"] = report.measured_plans;
    json["now"] = now_json(report);
    json["measured_again"] = report.measured_again;
    json["due_again"] = report.due_again;
    json["age_seconds"] = report.age_seconds;
    json["interrupted"] = report.interrupted;
    print_json(json);
  } else {
    const bool measured_now = report.age_seconds <= 0 && report.measured_plans > 0;
    print(report_text(report, measured_now ? advice_of(options) : kMeasureAgain) +
          known_text(report) +
          concat("written to '", options.package.string(), "' in ", number(report.seconds, 1),
                 " s, ", counted(report.measured_parts, "part"), " and ",
                 counted(report.measured_plans, "plan"), " measured\n") +
          budget_text(report, to.budget_seconds));
    if (!options.hosts.empty()) {
      if (const auto all = read_hosts(options.hosts, options.engine)) print(connections_text(*all));
    }
  }
  return report.interrupted ? interrupt_code() : kOk;
}

constexpr const char* kBuildFooter =
    R"(Imports the model and measures its parts on every backend there is. Covers the network with the fastest
parts, plans stages and replicas for the devices, and runs the plans beside one another. What was measured
corrects the costs, and it plans again. The package holds the plan that was measured to be the fastest, and
why (penstock explain). The simple ways that you would have tried are always measured too: ONNX Runtime with
its default threads and with a session on each core, OpenVINO with its latency and its throughput hint and
with a model on each core, on the file as it is.

A plan is only chosen if its outputs are those of ONNX Runtime without optimisation, within the tolerance
that 'penstock verify' uses too. What is measured is kept in a database (penstock costs), so that the next
build of the same model measures no part again.

In an application, each network that says nothing of how it is split is built on what the nodes before it
make. Functions are timed, and all stages are placed on the devices together. Plans of the whole are run beside
the application as it is written. With --hosts such networks are built over the hosts, and functions run here.

Examples:
  penstock build model.onnx -o model.penstock
  penstock build model.onnx -o model.penstock --devices cpu:0,cpu:1 --budget 5m --json
  penstock build model.onnx -o model.penstock --goal latency --backends onnxruntime,openvino
  penstock build model.onnx -o model.penstock --batch 8              up to 8 frames in a call, where that is faster
  penstock build model.onnx -o model.penstock --hosts hosts.yaml     over several machines (docs/hosts.md)
  penstock build app.yaml -o app.penstock --budget 2m              networks and functions (docs/composition.md)
  penstock build denoise.onnx --state cache_out=cache_in -o denoise.penstock      one frame's state for the next)";

}  // namespace

void declare_build(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<BuildOptions>();
  auto* command = add_command(
      app, "build", "Measures which backend runs which part best, and writes the best pipeline.",
      kBuildFooter);
  command->add_option("model", options->model, "A model (.onnx), or an application (.yaml)")
      ->required();
  command
      ->add_option("-o,--output", options->package,
                   "The package to write: a folder, or a file ending in .zip")
      ->required();
  auto* devices =
      command
          ->add_option("--devices", options->devices,
                       "Only these: cpu:0,cpu:1 or cpu:0-1,cuda:0; all: each CPU by itself. "
                       "Without, groups of CPUs are chosen by measurement")
          ->check(not_empty("devices such as cpu:0,cpu:1 or all"))
          ->check(device_list());
  auto* hosts = command
                    ->add_option("--hosts", options->hosts,
                                 "A file of machines that run 'penstock worker' (docs/hosts.md): "
                                 "build over these")
                    ->check(not_empty("a file"))
                    ->excludes(devices);
  command
      ->add_flag("--standby", options->standby,
                 "With --hosts: each stage gets a device of another host that takes over")
      ->needs(hosts);
  command->add_option("--goal", options->goal, "throughput, or latency of one frame at a time")
      ->capture_default_str()
      ->check(one_of({"throughput", "latency"}));
  command->add_option("--budget", options->budget, "Time to spend: 60s, 5m, 1h")
      ->capture_default_str()
      ->check(taken_by(tune::parse_budget));
  command
      ->add_option(
          "--most-parts", options->most_parts,
          "Parts to measure at most; whole networks and simple ways do not count (default: "
          "what the budget allows)")
      ->check(whole_number(0, 1'000'000'000));
  command->add_option("--backends", options->backends, "Those that may be chosen (default: all)")
      ->type_name(kBackendType)
      ->delimiter(',');
  command
      ->add_option(
          "--tolerance", options->tolerance,
          "Relative error allowed (default: 1e-3); where it is given, lower precisions are "
          "tried too")
      ->check(positive_number());
  command->add_option("--rules", options->rules,
                      "A file (.json): the rules by which backends take operators, by the "
                      "backend's name, in place of their own");
  command->add_option("--costs", options->costs,
                      "The database of what was measured (default: PENSTOCK_COSTS, else the "
                      "user's cache folder)");
  command->add_flag("--refresh", options->refresh,
                    "Measure again what the database knows, as after a change of the machine");
  add_input_options(command, options->inputs);
  add_state_option(command, options->states);
  add_streams_option(command, options->streams);
  add_most_frames_option(command, options->batches);
  add_import_options(command, options->import);
  add_backend_options(command, options->engine);
  command->add_flag("--json", options->json, "Print JSON");
  set_action(command, chosen, options, run);
}

}  // namespace penstock::cli
