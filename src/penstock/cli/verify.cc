// penstock verify: is the package whole, and does it compute what the model computes?
#include "penstock/measure/verify.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <spdlog/spdlog.h>

#include "penstock/app/app.h"
#include "penstock/base/near_names.h"
#include "penstock/base/thread.h"
#include "penstock/cli/command.h"
#include "penstock/cli/import_options.h"
#include "penstock/cli/inputs.h"
#include "penstock/cli/interrupt.h"
#include "penstock/cli/json.h"
#include "penstock/cli/numbers.h"
#include "penstock/cli/plugins.h"
#include "penstock/cli/progress.h"
#include "penstock/cli/show_plan.h"
#include "penstock/cli/show_verdict.h"
#include "penstock/cli/text.h"
#include "penstock/cli/wait_or_end.h"
#include "penstock/frames/source.h"
#include "penstock/plan/package.h"
#include "penstock/session/identify.h"
#include "penstock/session/session.h"
#include "penstock/session/verify.h"
#include "penstock/tensor/compare.h"

namespace penstock::cli {
namespace {

struct VerifyOptions {
  std::filesystem::path package;
  std::filesystem::path model;
  bool optimized = false;  ///< The reference is.
  frames::SourceOptions inputs;
  std::optional<double> tolerance;           ///< Relative; else what the package was built with.
  std::uint64_t frames = 0;                  ///< 0: as many as the files hold, or 20.
  std::vector<std::string> backend_options;  ///< Of the package's stages, not of the reference.
  bool no_native_code = false;
  bool json = false;
};

/// What is no package, and what makes one of it.
Status check_package(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return not_found("'", path.string(), "': no such folder or zip; 'penstock split' makes one",
                     did_you_mean_file(path));
  }
  const auto kind = identify(path);
  if (kind == FileKind::kPackage) return {};
  return invalid_argument("'", path.string(), "': expected a package (a folder or a .zip), found ",
                          kind == FileKind::kApplication ? "an application" : "another file",
                          "; 'penstock split' makes one of a model or an application");
}

Result<measure::VerifyReport> judge(const VerifyOptions& options, const pipeline::Options& settings,
                                    const backend::Registry& backends) {
  PENSTOCK_TRY(auto opened, open_package(options.package, settings, backends));
  log_plan(opened.package.plan, backends);
  penstock::VerifyOptions asked;
  asked.model = options.model;
  asked.optimized = options.optimized;
  asked.tolerance =
      options.tolerance ? Tolerance::of(*options.tolerance) : tolerance_of(opened.package);
  asked.random = options.inputs.random;
  asked.frames = options.frames;
  asked.stopped = interrupted;
  if (frames::has_files(options.inputs)) {
    PENSTOCK_TRY(auto inputs, frames::with_bound(options.inputs, opened.package));
    inputs.wanted = options.frames > 0 ? options.frames : UINT64_MAX;
    PENSTOCK_TRY(asked.given, frames::read_frames(opened.package.plan.inputs, inputs));
  }
  std::optional<Progress> progress;
  asked.progress = [&](std::uint64_t judged, std::uint64_t of) {
    if (!progress) progress.emplace("verify", "frames", of);
    progress->show(judged);
  };
  return penstock::verify(opened, std::move(asked), settings, backends);
}

Result<int> run(const VerifyOptions& options) {
  PENSTOCK_CHECK_OK(check_package(options.package));
  const auto backends = load_backends();
  std::vector<std::string> warnings;
  pipeline::Options settings;
  settings.warn = [&](const std::string& message) {
    spdlog::warn("{}", message);
    warnings.push_back(message);
  };
  PENSTOCK_TRY(settings.backend_options, to_backend_options({.options = options.backend_options}));
  settings.native_code = !options.no_native_code;
  settings.stopped = interrupted;
  const InterruptGuard guard;
  PENSTOCK_TRY(auto running, start_async([&] { return judge(options, settings, backends); }));
  PENSTOCK_TRY(auto report, wait_or_end(std::move(running)));
  report.warnings = std::move(warnings);
  if (options.json) {
    Json json = {{"package", options.package.string()}};
    json.update(Json::parse(measure::to_json(report)));
    print_json(json);
  } else {
    print(verdict_text(report));
  }
  log_findings(report);
  return verdict_code(report);
}

constexpr const char* kVerifyFooter =
    R"(Checks the hash of every file, loads the package, and compares what the pipeline makes of each frame
with the whole model: --model, or the file that the package was made from where it is still there and
unchanged; else with its own stages one after the other. A package with functions or several
networks is compared with its own stages without replicas, one frame at a time, networks in ONNX Runtime.
The reference runs without graph optimisation (with it: --optimised).

A value a matches the reference's value e if |a-e| <= 1e-3 |e| + 1e-5 max|e| over its tensor + a floor. The
floor is 8 times as much as the reference differs from itself when its inputs change in the last bits or its
engine's settings change, and at most half of what bf16 would give. Integers, booleans and texts must be
equal, 8-bit integers within one step; as large a share of them may differ as does in the reference itself,
1 % at most. If all frames give about the same outputs, a wrong result could pass: then the verdict is
inconclusive, and other frames are needed (--input). A warning says so if the engine's version or the CPU
are others than when the package was made.

Examples:
  penstock verify model.penstock --model model.onnx
  penstock verify model.penstock --frames 200 --seed 7 --json

Exit code 1 if a frame failed or differed, 3 if that could not be told, 130 after Ctrl-C.)";

}  // namespace

void declare_verify(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<VerifyOptions>();
  auto* command = add_command(
      app, "verify", "Checks a package, and that it computes what the whole model computes.",
      kVerifyFooter);
  command->add_option("package", options->package, "A package (a folder or .zip)")->required();
  command->add_option(
      "--model", options->model,
      "The model that the package was made from (default: that file, if unchanged)");
  command->add_flag("--optimised", options->optimized,
                    "Let the engine optimise the reference, as plain ONNX Runtime would");
  command
      ->add_option("--frames", options->frames,
                   "How many (default: what the files hold, or 20 random ones; with states and "
                   "several streams all of the files to each, or 4 random ones or more)")
      ->check(positive_count());
  command
      ->add_option("--tolerance", options->tolerance,
                   "Relative error allowed (default: what 'penstock build' was given, else 1e-3)")
      ->check(positive_number());
  add_input_options(command, options->inputs);
  add_list(command, "--backend-option", options->backend_options,
           "A setting of the engine's own, for the package's stages: onnxruntime:KEY=VALUE");
  add_native_code_option(command, options->no_native_code);
  command->add_flag("--json", options->json, "Print the report as JSON");
  set_action(command, chosen, options, run);
}

}  // namespace penstock::cli
