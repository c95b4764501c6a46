// penstock verify: is the package whole, and does it compute what the model computes?
#include <algorithm>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>

#include <spdlog/spdlog.h>

#include "penstock/app/app.h"
#include "penstock/build/report.h"
#include "penstock/cli/command.h"
#include "penstock/cli/import_options.h"
#include "penstock/cli/inputs.h"
#include "penstock/cli/interrupt.h"
#include "penstock/cli/json.h"
#include "penstock/cli/numbers.h"
#include "penstock/cli/progress.h"
#include "penstock/cli/show_plan.h"
#include "penstock/cli/text.h"
#include "penstock/frames/source.h"
#include "penstock/measure/reference.h"
#include "penstock/plan/package.h"
#include "penstock/session/identify.h"
#include "penstock/session/session.h"
#include "penstock/tensor/compare.h"

namespace penstock::cli {
namespace {

struct VerifyOptions {
  std::filesystem::path package;
  std::filesystem::path model;
  bool optimized = false;  ///< The reference is.
  frames::SourceOptions inputs;
  std::optional<double> tolerance;  ///< Relative; else what the package was built with.
  std::uint64_t frames = 0;         ///< 0: as many as the files hold, or kDefaultFrames.
  bool no_native_code = false;
  bool json = false;
};

constexpr std::uint64_t kDefaultFrames = 20;
constexpr std::size_t kProblemsShown = 5;

/// What all frames showed of one output.
struct OutputReport {
  std::string name;
  std::size_t values = 0, mismatches = 0, frames_wrong = 0;
  double largest_error = 0, worst_ratio = 0;
};

struct VerifyReport {
  std::uint64_t frames = 0, dropped = 0;
  std::vector<OutputReport> outputs;
  std::vector<std::string> problems;  ///< The first ones.
  std::size_t problem_count = 0;
  std::vector<std::string> warnings;
  std::string reference;
  bool interrupted = false;  ///< Before all frames were compared.
  std::string hint;          ///< Why it may differ through no fault of the package; may be empty.

  [[nodiscard]] bool ok() const { return problem_count == 0; }
  void add_problem(std::string text) {
    if (++problem_count <= kProblemsShown) problems.push_back(std::move(text));
  }
};

/// A frame that differed: what went in, what the reference made of it.
struct Differing {
  frames::Frame inputs;
  std::vector<Tensor> expected;
};

/// Feeds the pipeline and compares what comes out, in order, with the reference.
class Verification {
 public:
  Verification(const VerifyOptions& options, const Tolerance& tolerance, Opened& opened,
               measure::Reference& reference, VerifyReport& report)
      : options_(options),
        tolerance_(tolerance),
        opened_(opened),
        reference_(reference),
        report_(report) {
    for (const auto& output : plan().outputs) report_.outputs.push_back({.name = output.name});
  }

  Status run() {
    if (frames::has_files(options_.inputs)) {
      PENSTOCK_TRY(const auto arguments, frames::with_bound(options_.inputs, opened_.package));
      PENSTOCK_TRY(given_, frames::read_frames(plan().inputs, arguments));
    }
    const std::uint64_t usual = given_.empty() ? kDefaultFrames : given_.size();
    const std::uint64_t frames = options_.frames > 0 ? options_.frames : usual;
    Progress progress("verify", "frames", frames);
    for (std::uint64_t number = 0; number < frames && !interrupted(); ++number) {
      PENSTOCK_TRY(auto inputs, frame(number));
      for (;;) {
        const auto pushed = opened_.pipeline->try_push(inputs);
        if (pushed) break;
        if (pushed.error().code != Code::kDeadlineExceeded) return pushed.error();
        PENSTOCK_CHECK_OK(compare_next());
        progress.show(report_.frames);
      }
      waiting_.push_back(std::move(inputs));
    }
    opened_.pipeline->close();
    report_.interrupted = interrupted();
    while (!waiting_.empty()) {
      PENSTOCK_CHECK_OK(compare_next());
      progress.show(report_.frames);
    }
    return {};
  }

  /// The first one, if any.
  [[nodiscard]] const std::optional<Differing>& differing() const { return differing_; }

 private:
  [[nodiscard]] const plan::Plan& plan() const { return opened_.package.plan; }

  Result<frames::Frame> frame(std::uint64_t number) const {
    if (!given_.empty()) return given_[number % given_.size()];
    return frames::random_frame(plan().inputs, options_.inputs.random, number);
  }

  Status compare_next() {
    PENSTOCK_TRY(auto popped, opened_.pipeline->pop());
    if (!popped) return internal_error("verify: the pipeline ended with frames in flight");
    const frames::Frame inputs = std::move(waiting_.front());
    waiting_.pop_front();
    const auto number = report_.frames++;
    const auto expected = reference_.run(inputs);
    if (popped->outcome() == pipeline::Outcome::kDropped && !expected &&
        expected.error().code == popped->error().code) {
      ++report_.dropped;  // By a function, which does so in the reference too.
    } else if (!popped->ok() && (expected || popped->outcome() != pipeline::Outcome::kError)) {
      report_.add_problem(popped->error().message());
    } else if (!expected && popped->ok()) {
      report_.add_problem(concat("frame ", number,
                                 ": the reference fails where the pipeline does "
                                 "not: ",
                                 expected.error().message()));
    } else if (!expected) {
      report_.add_problem(
          concat(popped->error().message(),
                 frames::has_files(options_.inputs)
                     ? "; the reference fails too: the input or the model is at fault"
                     : "; the reference fails too" +
                           advice_on_random(popped->error(), options_.inputs, plan().inputs)));
    } else {
      const auto problems = report_.problem_count;
      compare_outputs(number, *popped, *expected);
      if (report_.problem_count > problems && !differing_) differing_ = {inputs, *expected};
    }
    return {};
  }

  void compare_outputs(std::uint64_t number, const pipeline::Output& actual,
                       const std::vector<Tensor>& expected) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto result = compare(actual[i], expected[i], tolerance_);
      auto& output = report_.outputs[i];
      output.values += result.count;
      output.mismatches += result.mismatches;
      output.frames_wrong += result.ok() ? 0 : 1;
      output.largest_error = std::max(output.largest_error, result.largest_error);
      output.worst_ratio = std::max(output.worst_ratio, result.worst_ratio);
      if (!result.ok()) {
        report_.add_problem(
            concat("frame ", number, ": output '", output.name, "': ", to_string(result)));
      }
    }
  }

  const VerifyOptions& options_;
  Tolerance tolerance_;
  Opened& opened_;
  measure::Reference& reference_;
  VerifyReport& report_;
  std::vector<frames::Frame> given_;
  std::deque<frames::Frame> waiting_;  ///< In flight.
  std::optional<Differing> differing_;
};

Json finite(double value) {
  return value < 1e300 ? Json(value) : Json("infinite");
}

Json to_json(const VerifyOptions& options, const VerifyReport& report) {
  Json outputs = Json::array();
  for (const auto& output : report.outputs) {
    outputs.push_back({{"name", output.name},
                       {"values", output.values},
                       {"mismatches", output.mismatches},
                       {"largest_error", finite(output.largest_error)},
                       {"worst_ratio", finite(output.worst_ratio)}});
  }
  return {{"package", options.package.string()},
          {"ok", report.ok()},
          {"frames", report.frames},
          {"dropped", report.dropped},
          {"interrupted", report.interrupted},
          {"reference", report.reference},
          {"outputs", std::move(outputs)},
          {"problem_count", report.problem_count},
          {"problems", report.problems},
          {"hint", report.hint},
          {"warnings", report.warnings}};
}

std::string to_text(const VerifyReport& report) {
  std::string text = "hashes: as in plan.json\nreference: " + report.reference + "\n";
  Table table(
      {"output", ">values", ">outside the tolerance", ">largest error", ">of the tolerance"});
  for (const auto& output : report.outputs) {
    table.add({output.name, std::to_string(output.values), std::to_string(output.mismatches),
               concat(output.largest_error), number(output.worst_ratio * 100, 1) + " %"});
  }
  text += table.print();
  const auto dropped = report.dropped == 0 ? "" : concat(" (", report.dropped, " dropped)");
  return text + concat(report.ok() ? "verified: " : "not verified: ", report.frames, " frames",
                       dropped, ", ", report.problem_count, " problems",
                       report.interrupted ? " (interrupted)\n" : "\n");
}

Result<std::unique_ptr<measure::Reference>> make_reference(const VerifyOptions& options,
                                                           bool optimized,
                                                           const plan::Package& package,
                                                           const backend::Registry& backends) {
  if (options.model.empty()) return measure::stage_reference(package, backends, optimized);
  PENSTOCK_TRY(const auto bound, plan::read_bound_values(package.plan, package.folder));
  std::vector<std::filesystem::path> custom_ops;
  for (const auto& library : package.plan.custom_ops) {
    custom_ops.push_back(package.folder / library);
  }
  PENSTOCK_TRY(const auto model, bind_model(options.model, bound, backends, custom_ops));
  auto reference = measure::whole_reference(model.file, package, backends, optimized);
  if (reference) return reference;
  Error error = std::move(reference).error();
  Where* const place = error.find(Where::kModel);
  if (place != nullptr && place->name == model.file.string()) place->name = options.model.string();
  return error;
}

std::string describe_reference(const VerifyOptions& options, const plan::Origin& origin) {
  const std::string how = options.optimized ? "optimised" : "not optimised";
  if (!options.model.empty()) return "the whole model '" + options.model.string() + "', " + how;
  const auto file = origin.model_file.empty() ? "the model" : "'" + origin.model_file + "'";
  return concat("the package's own stages one after the other, ", how, ", as ", file,
                " is gone or changed since the package was made (give --model for the whole)");
}

/// For a package that no one model computes: `why`.
Status refuse_model_options(const VerifyOptions& options, const std::string& why) {
  if (options.model.empty() && !options.optimized) return {};
  return invalid_argument(
      options.model.empty() ? "--optimised" : "--model", ": package '", options.package.string(),
      "' is compared with itself, one frame at a time, as ", why, "; leave the option out");
}

/// Does the engine differ from itself, optimised and not, on the frame that differed?
std::string find_hint(const VerifyOptions& options, const Differing& frame,
                      const plan::Package& package, const backend::Registry& backends) {
  const auto other = make_reference(options, !options.optimized, package, backends);
  if (!other) return {};
  const auto outputs = (*other)->run(frame.inputs);
  if (!outputs) return {};
  double worst = 0;
  for (std::size_t i = 0; i < outputs->size(); ++i) {
    worst = std::max(worst, compare((*outputs)[i], frame.expected[i]).worst_ratio);
  }
  if (worst <= 1) return {};
  return concat("the engine itself, optimised and not, differs by ", number(worst, 1),
                " times the tolerance on such a frame, without Penstock",
                options.optimized ? "" : "; 'verify --optimised' compares with its optimised run");
}

/// The options with the model that the package was made from, where it is at hand; a warning
/// where the one given is another.
VerifyOptions with_model(VerifyOptions options, const plan::Package& package,
                         const backend::Registry& backends,
                         const std::function<void(const std::string&)>& warn) {
  if (options.model.empty()) {
    options.model = find_model(package.plan.origin, options.package);
  } else if (match_model(options.model, package, backends) == Match::kOther) {
    warn(concat("'", options.model.string(), "' is not the model that the package was made from"));
  }
  return options;
}

/// What the user says, or said when the package was built by measurement.
Tolerance tolerance_for(const VerifyOptions& options, const plan::Package& package) {
  if (options.tolerance) return Tolerance::of(*options.tolerance);
  const auto built = build::read_report(package);
  return built ? Tolerance::of(built->tolerance) : Tolerance();
}

/// What is no package, and what makes one of it.
Status check_package(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return not_found("'", path.string(), "': no such folder or zip; 'penstock split' makes one");
  }
  const auto kind = identify(path);
  if (kind == FileKind::kPackage) return {};
  return invalid_argument("'", path.string(), "': expected a package (a folder or a .zip), found ",
                          kind == FileKind::kApplication ? "an application" : "another file",
                          "; 'penstock split' makes one of a model or an application");
}

Result<int> verify(VerifyOptions options) {
  PENSTOCK_CHECK_OK(check_package(options.package));
  const auto backends = backend::Registry::load();
  VerifyReport report;
  pipeline::Options settings;
  settings.warn = [&](const std::string& message) {
    spdlog::warn("{}", message);
    report.warnings.push_back(message);
  };
  settings.native_code = !options.no_native_code;
  settings.stopped = interrupted;
  const InterruptGuard guard;
  PENSTOCK_TRY(auto opened, open_package(options.package, settings, backends));
  log_plan(opened.package.plan, backends);
  std::unique_ptr<measure::Reference> reference;
  const auto why = why_no_single_model(opened.package.plan);
  if (why.empty()) {
    options = with_model(std::move(options), opened.package, backends, settings.warn);
    report.reference = describe_reference(options, opened.package.plan.origin);
    PENSTOCK_TRY(reference, make_reference(options, options.optimized, opened.package, backends));
  } else {
    PENSTOCK_CHECK_OK(refuse_model_options(options, why));
    report.reference = "the package's own stages, one frame at a time, as " + why;
    settings.warn = nullptr;
    PENSTOCK_TRY(reference, measure::one_at_a_time(opened.package, backends, settings));
  }
  const auto tolerance = tolerance_for(options, opened.package);
  Verification verification(options, tolerance, opened, *reference, report);
  PENSTOCK_CHECK_OK(verification.run());
  if (const auto& frame = verification.differing(); frame && why.empty()) {
    report.hint = find_hint(options, *frame, opened.package, backends);
  }
  if (options.json) {
    print_json(to_json(options, report));
  } else {
    print(to_text(report));
  }
  for (const auto& problem : report.problems) spdlog::error("{}", problem);
  if (!report.hint.empty()) spdlog::warn("{}", report.hint);
  if (report.interrupted) return interrupt_code();
  return report.ok() ? kOk : kFailed;
}

Result<int> run(const VerifyOptions& options) {
  return verify(options);
}

constexpr const char* kVerifyFooter =
    R"(Checks the hash of every file, loads the package, and compares what the pipeline makes of each frame
with the whole model: --model, or the file that the package was made from where it is still there and
unchanged; else with its own stages one after the other. A package with functions, states or several
networks is compared with its own stages without replicas, one frame at a time. A model as the reference runs without graph optimisation (with it: --optimised; some networks amplify rounding so much that an engine's two ways
differ). A value a matches e where |a-e| <= 1e-3 |e| + 1e-5 max|e| over its tensor; integers and
booleans where equal, 8-bit integers within one step. Warns where the engine's version or the CPU are
not those that the package was made with.

Examples:
  penstock verify model.penstock --model model.onnx
  penstock verify model.penstock --frames 200 --seed 7 --json

Exit code 1 if a frame failed or differed, 130 after Ctrl-C.)";

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
                   "How many (default: what the files hold, or 20 random ones)")
      ->check(positive_count());
  command
      ->add_option("--tolerance", options->tolerance,
                   "Relative error allowed (default: what 'penstock build' was given, else 1e-3)")
      ->check(positive_number());
  add_input_options(command, options->inputs);
  add_native_code_option(command, options->no_native_code);
  command->add_flag("--json", options->json, "Print the report as JSON");
  set_action(command, chosen, options, run);
}

}  // namespace penstock::cli
