// penstock build: a model and devices -> the measured best package.
#include "penstock/build/build.h"

#include <charconv>
#include <filesystem>
#include <memory>

#include <spdlog/spdlog.h>

#include "penstock/cli/command.h"
#include "penstock/cli/import_options.h"
#include "penstock/cli/inputs.h"
#include "penstock/cli/interrupt.h"
#include "penstock/cli/json.h"
#include "penstock/cli/numbers.h"
#include "penstock/cli/progress.h"
#include "penstock/cli/report_text.h"
#include "penstock/cli/text.h"
#include "penstock/frames/source.h"
#include "penstock/session/session.h"

namespace penstock::cli {
namespace {

struct BuildOptions {
  std::filesystem::path model, package, costs, rules;
  std::string devices = "all";
  std::string goal = "throughput";
  std::string budget = "60s";
  std::int64_t most_parts = INT64_MAX;
  std::vector<std::string> backends;
  std::optional<double> tolerance;
  ImportArguments import;
  BackendArguments engine;
  frames::SourceOptions inputs;
  bool json = false;
};

/// "60s", "90", "2m", "1.5h"
Result<double> parse_duration(const std::string& text) {
  double value = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  const std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  const double scale = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (problem != std::errc() || scale == 0 || !(value > 0) || !(value * scale < 1e7)) {
    return invalid_argument("--budget: expected a time such as 60s, 5m or 1h, found '", text, "'");
  }
  return value * scale;
}

/// The database of costs; one in memory, with a warning, where there is none to be had.
Result<cost::Database> open_costs(const BuildOptions& options) {
  if (!options.costs.empty()) return cost::Database::open(options.costs);
  auto database = cost::Database::open(cost::Database::default_path());
  if (database) return database;
  spdlog::warn("{}; what is measured now will be forgotten", database.error().message());
  return cost::Database::in_memory();
}

Result<build::Options> to_build_options(const BuildOptions& options) {
  build::Options to;
  to.output = options.package;
  auto devices = device::parse_devices(options.devices);
  if (!devices) return std::move(devices).error().within("--devices");
  to.devices = *std::move(devices);
  to.goal = options.goal == "latency" ? build::Goal::kLatency : build::Goal::kThroughput;
  PENSTOCK_TRY(to.budget_seconds, parse_duration(options.budget));
  to.most_parts = options.most_parts;
  to.backends = options.backends;
  to.rules = options.rules;
  PENSTOCK_TRY(to.backend_options, to_backend_options(options.engine));
  to.custom_ops = options.engine.custom_ops;
  to.tolerance = options.tolerance;
  to.random = options.inputs.random;
  to.stopped = interrupted;
  return to;
}

Json now_json(const build::Report& report) {
  Json ways = Json::array();
  for (const auto& way : report.now) {
    ways.push_back({{"name", way.name},
                    {"frames_per_second", way.frames_per_second},
                    {"latency_ms_p50", way.latency_seconds * 1e3},
                    {"spread", way.spread},
                    {"failure", way.failure}});
  }
  return ways;
}

std::string budget_text(const build::Report& report, double budget) {
  if (report.minimum_seconds <= budget) return "";
  return concat("the budget of ", number(budget, 1), " s is less than the ",
                number(report.minimum_seconds, 1),
                " s that whole networks and the simple ways alone needed\n");
}

Result<int> run(const BuildOptions& options) {
  PENSTOCK_TRY(auto to, to_build_options(options));
  const auto backends = backend::Registry::load();
  PENSTOCK_TRY(auto database, open_costs(options));
  const InterruptGuard guard;
  PENSTOCK_TRY(const auto graph,
               import_file(options.model, options.import, backends, options.engine.custom_ops));
  PENSTOCK_TRY(to.import, to_import_options(options.import));
  if (frames::has_files(options.inputs)) {
    PENSTOCK_TRY(to.frames, frames::read_frames(inputs_of(graph), options.inputs));
  }
  Progress progress("build", "% of the budget", 100);
  to.progress = [&](const std::string& what, double share) {
    spdlog::info("{}", what);
    progress.show(static_cast<std::uint64_t>(share * 100));
  };
  auto built = build::build_model(graph, to, backends, database);
  if (!built) {
    // The frames are at fault only where the network itself fails on them.
    const bool on_frames = built.error().find(Where::kWay) != nullptr;
    const auto advice =
        on_frames ? advice_on_random(built.error(), options.inputs, inputs_of(graph)) : "";
    return std::move(built).error().adding(advice);
  }
  const auto report = *std::move(built);
  if (options.json) {
    auto json = Json::parse(build::to_json(report));
    json["package"] = options.package.string();
    json["seconds"] = report.seconds;
    json["minimum_seconds"] = report.minimum_seconds;
    json["measured_parts"] = report.measured_parts;
    json["measured_plans"] = report.measured_plans;
    json["now"] = now_json(report);
    json["interrupted"] = report.interrupted;
    print_json(json);
  } else {
    print(report_text(report) +
          concat("written to '", options.package.string(), "' in ", number(report.seconds, 1),
                 " s, ", report.measured_parts, " parts and ", report.measured_plans,
                 " plans measured\n") +
          budget_text(report, to.budget_seconds));
  }
  return report.interrupted ? interrupt_code() : kOk;
}

constexpr const char* kBuildFooter =
    R"(Imports the model, measures its parts on every backend there is, covers the network with the
fastest of them, plans stages and replicas for the devices, runs the plans beside one another, corrects
the costs by what was measured and plans again; the package holds the plan that was measured the
fastest, and why (penstock explain). The simple ways that you would have tried are always among what is
measured: ONNX Runtime with its default threads and with a session on each core, OpenVINO with its
latency and its throughput hint, on the file as it is.

Nothing is chosen whose outputs are not those of ONNX Runtime without optimisation, within the tolerance
that 'penstock verify' will take, too. What is measured is kept in a database (penstock costs), so that the next build of
the same model measures no part again.

Examples:
  penstock build model.onnx -o model.penstock
  penstock build model.onnx -o model.penstock --devices cpu:0,cpu:1 --budget 5m --json
  penstock build model.onnx -o model.penstock --goal latency --backends onnxruntime,openvino)";

}  // namespace

void declare_build(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<BuildOptions>();
  auto* command = add_command(
      app, "build", "Measures which backend runs which part best, and writes the best pipeline.",
      kBuildFooter);
  command->add_option("model", options->model, "A model (.onnx)")->required();
  command
      ->add_option("-o,--output", options->package,
                   "The package to write: a folder, or a file ending in .zip")
      ->required();
  command
      ->add_option("--devices", options->devices, "cpu:0,cpu:1 or cpu:0-1,cpu:2-3; all: each CPU")
      ->capture_default_str();
  command->add_option("--goal", options->goal, "throughput, or latency of one frame at a time")
      ->capture_default_str()
      ->check(CLI::IsMember({"throughput", "latency"}));
  command->add_option("--budget", options->budget, "Time to spend: 60s, 5m, 1h")
      ->capture_default_str();
  command
      ->add_option("--most-parts", options->most_parts,
                   "Parts to measure, whole networks and the simple ways besides (default: what "
                   "the budget allows)")
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
                      "What backends may be tried on, by name, instead of what they say (.json)");
  command->add_option("--costs", options->costs,
                      "The database of what was measured (default: PENSTOCK_COSTS, else the "
                      "user's cache folder)");
  add_input_options(command, options->inputs);
  add_import_options(command, options->import);
  add_backend_options(command, options->engine);
  command->add_flag("--json", options->json, "Print JSON");
  set_action(command, chosen, options, run);
}

}  // namespace penstock::cli
