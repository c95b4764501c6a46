// Makes reference and judge, runs the frames, then random values of other sizes where needed.
#include "penstock/session/verify.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "penstock/base/option_name.h"
#include "penstock/cost/profiler.h"
#include "penstock/frames/values.h"
#include "penstock/measure/bursts.h"
#include "penstock/measure/reference.h"
#include "penstock/measure/slow_runs.h"
#include "penstock/plan/stream_options.h"
#include "penstock/session/join.h"
#include "penstock/session/judging.h"
#include "penstock/session/other_frames.h"
#include "penstock/session/references.h"
#include "penstock/session/switches.h"

namespace penstock {
namespace {

constexpr std::uint64_t kDefaultFrames = 20;
constexpr std::size_t kMostRepeats = 5;  ///< Of bursts: the reference runs each of their frames.

/// For a package that no one model computes: `why`.
Status refuse_model_options(const VerifyOptions& options, const Opened& opened,
                            const std::string& why) {
  if (options.model.empty() && !options.optimized) return {};
  return invalid_argument(options.model.empty() ? OptionName::kOptimised : OptionName::kModel,
                          ": package '", opened.path.string(),
                          "' is compared with itself, one frame at a time, as ", why,
                          "; leave the option out");
}

/// Finds the model that the package was made from, or warns where the one given is another.
Status find_whole(VerifyOptions& options, const Opened& opened, const backend::Registry& backends,
                  const pipeline::Options& settings) {
  const auto& plan = opened.package.plan;
  if (options.model.empty()) {
    options.model = find_model(plan.origin, opened.path);
    return {};
  }
  PENSTOCK_CHECK_OK(check_model(options.model));
  if (match_model(options.model, opened.package, backends) == Match::kOther && settings.warn) {
    settings.warn(
        concat("'", options.model.string(), "' is not the model that the package was made from"));
  }
  return {};
}

/// The whole model with the inputs constant that the package binds; none where it is not at hand.
Result<ModelFile> bound_model(const VerifyOptions& options, const plan::Package& package,
                              const backend::Registry& backends) {
  if (options.model.empty()) return ModelFile();
  PENSTOCK_TRY(const auto bound, plan::read_bound_values(package.plan, package.folder));
  const auto custom_ops = plan::custom_op_files(package);
  auto made = bind_model(options.model, bound, backends, custom_ops);
  if (made || bound.empty()) return made;
  graph::ImportOptions import;
  import.as_is = true;
  const auto graph = import_model(options.model, import, backends, custom_ops);
  if (!graph) return made;  // It is not what is bound that is refused.
  std::vector<std::string> inputs, missing;
  for (const auto id : graph->inputs) inputs.push_back(concat("'", graph->value(id).name, "'"));
  for (const auto& [name, value] : bound) {
    auto quoted = concat("'", name, "'");
    if (std::ranges::find(inputs, quoted) == inputs.end()) missing.push_back(std::move(quoted));
  }
  if (missing.empty()) return made;
  return not_found("the package binds ", missing.size() == 1 ? "input " : "inputs ",
                   join(missing, ", "), ", which this model does not have: its inputs are ",
                   inputs.empty() ? "none" : join(inputs, ", "),
                   "; give the model that the package was made from (", OptionName::kModel, ")")
      .within({Where::kModel, options.model.string()});
}

/// Of parts that nothing here can be compared with.
void warn_of_own_witnesses(const plan::Plan& plan, const pipeline::Options& settings) {
  if (!settings.warn) return;
  for (const auto& stage : plan.stages) {
    if (!measure::is_own_witness(stage)) continue;
    settings.warn(
        concat("stage '", stage.name,
               "' is compared with itself, as a server or another machine runs it: what it "
               "computes wrong every time is not seen"));
  }
}

/// The pipeline of the plan as it is now; what the first start warned of is known.
Status restart(Opened& opened, pipeline::Options settings, const backend::Registry& backends) {
  settings.warn = nullptr;
  opened.pipeline.reset();
  PENSTOCK_TRY(
      opened.pipeline,
      pipeline::Pipeline::start(opened.package.plan, opened.package.folder, backends, settings));
  return {};
}

/// Of several streams each gets all that are given, or some random ones.
std::uint64_t usual_frames(const VerifyOptions& options, const pipeline::Pipeline& pipeline) {
  constexpr std::uint64_t kOfEachStream = 4;
  const auto streams = measure::streams_in_turn(pipeline);
  std::uint64_t usual = options.given.size() * streams;
  if (options.given.empty()) {
    usual = streams == 1 ? kDefaultFrames : std::max(kDefaultFrames, kOfEachStream * streams);
  }
  // Of one stream with states a call has one frame, however many there are.
  if (streams == 1 && !pipeline.plan().states.empty()) return usual;
  const auto bursts = measure::bursts_of(pipeline);
  return std::max<std::uint64_t>(usual, std::accumulate(bursts.begin(), bursts.end(), 0U));
}

}  // namespace

Result<measure::VerifyReport> verify(Opened& opened, VerifyOptions options,
                                     const pipeline::Options& settings,
                                     const backend::Registry& backends) {
  if (plan::keep_all_frames(opened.package.plan))
    PENSTOCK_CHECK_OK(restart(opened, settings, backends));
  const auto& plan = opened.package.plan;
  PENSTOCK_CHECK_OK(frames::check_frames(plan.inputs, options.given));
  const auto why = why_no_single_model(plan);
  ModelFile whole;
  if (why.empty()) {
    PENSTOCK_CHECK_OK(find_whole(options, opened, backends, settings));
    PENSTOCK_TRY(whole, bound_model(options, opened.package, backends));
  } else {
    PENSTOCK_CHECK_OK(refuse_model_options(options, opened, why));
    warn_of_own_witnesses(plan, settings);
  }
  if (settings.warn && options.given.empty()) {
    if (const auto graph = join_stages(opened.package)) {
      for (const auto& one : warnings_of_switches(*graph, plan.states)) settings.warn(one);
    }
  }
  const References references(options, whole.file, why, opened.package, settings, backends);
  PENSTOCK_TRY(const auto made, references.make({.optimize = options.optimized}));
  const auto tell = measure::once([&] {
    if (!settings.warn) return;
    settings.warn(measure::tell_long_run(plan.model, cost::kLongRun, options.given.empty()));
  });
  measure::WatchedReference reference(*made, tell, cost::kLongRun);
  const VerifyRun usual{*opened.pipeline, opened.package, options, references, reference, tell};
  auto judge = unmeasured_judge(options, plan);
  // What a function keeps from frame to frame begins once for each pipeline.
  const bool repeats = why.empty() || std::ranges::none_of(plan.stages, &plan::Stage::stateful);
  if (repeats) {
    PENSTOCK_TRY(judge, make_judge(usual));
    PENSTOCK_CHECK_OK(reference.begin_sequence());
  }
  const bool as_asked = options.frames > 0;
  const auto frames = as_asked ? options.frames : usual_frames(options, *opened.pipeline);
  PENSTOCK_TRY(auto report, judge_frames(usual, judge, frames, as_asked ? 0 : kMostRepeats));
  const bool random = options.given.empty() && judge.is_measured();
  if (random && report.failed + report.unjudged == 0) {
    if (plan.states.empty()) PENSTOCK_CHECK_OK(try_other_scales(usual, report));
    PENSTOCK_CHECK_OK(try_other_sizes(usual, report, settings.warn));
  }
  if (settings.warn && !report.interrupted) {
    for (const auto& sentence : measure::unseen_sizes(*opened.pipeline)) settings.warn(sentence);
  }
  opened.pipeline->close();
  report.reference = references.describe();
  return report;
}

}  // namespace penstock
