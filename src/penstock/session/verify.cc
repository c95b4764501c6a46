// Makes reference and judge, runs the frames, then random values of other sizes where needed.
#include "penstock/session/verify.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "penstock/base/option_name.h"
#include "penstock/device/device.h"
#include "penstock/frames/values.h"
#include "penstock/measure/judge.h"
#include "penstock/measure/reference.h"
#include "penstock/measure/variants.h"
#include "penstock/plan/stream_options.h"
#include "penstock/session/bursts.h"
#include "penstock/session/known_outputs.h"
#include "penstock/session/shaken.h"
#include "penstock/tensor/number.h"

namespace penstock {
namespace {

constexpr std::uint64_t kDefaultFrames = 20;
constexpr std::uint64_t kTriedFrames = 4;         ///< That say what is allowed,
constexpr std::uint64_t kMostTried = 32;          ///< Where the reference fails on some of these,
constexpr std::uint64_t kSequenceFrames = 16;     ///< and where rounding adds up in states.
constexpr std::uint64_t kOtherFrames = 4;         ///< Of other sizes than the usual ones,
constexpr std::int64_t kTimes[] = {5, 8, 16, 2};  ///< so many times as large, the first that fits,
constexpr std::int64_t kTimesFirst[] = {2, 1};    ///< but the first of several dimensions,
constexpr std::int64_t kLong = 8;  ///< or twice, where the usual ones are above this.
/// By which other random numbers are multiplied, in turn, where the usual ones give all the same.
constexpr double kScales[] = {1, 8, 1.0 / 8, 64, 1.0 / 64, 512};

/// The package, the options, and what makes references of them.
class References {
 public:
  /// `whole`: the model with its bound inputs constant; empty: the stages are the reference.
  /// `why`: the pipeline's own calls in turn are, as no single model computes what it does; empty:
  /// one does. `settings`: of that pipeline.
  References(const VerifyOptions& options, std::filesystem::path whole, std::string why,
             const plan::Package& package, pipeline::Options settings,
             const backend::Registry& backends)
      : options_(options),
        whole_(std::move(whole)),
        why_(std::move(why)),
        package_(package),
        settings_(std::move(settings)),
        backends_(backends) {
    settings_.warn = nullptr;
  }

  [[nodiscard]] Result<std::unique_ptr<measure::Reference>> make(
      const measure::ReferenceSettings& settings) const {
    if (!why_.empty()) return measure::one_at_a_time(package_, backends_, settings_, settings);
    if (whole_.empty()) return measure::stage_reference(package_, backends_, settings);
    return measure::whole_reference(whole_, package_, backends_, settings);
  }

  /// The others that are right as well.
  [[nodiscard]] std::vector<measure::MakeReference> others() const {
    const bool optimized = options_.optimized;
    std::vector<measure::MakeReference> all;
    all.emplace_back([this, optimized] { return make({.optimize = !optimized}); });
    if (device::inherited_cpus().size() > 1) {
      all.emplace_back(
          [this, optimized] { return make({.optimize = optimized, .one_thread = true}); });
    }
    if (!whole_.empty()) {
      all.push_back(noisy_reference(whole_, package_, backends_, {.optimize = optimized}));
    }
    // Not where the whole model is the reference: what is judged is no witness for itself.
    if (why_.empty() && options_.model.empty() && package_.plan.stages.size() > 1) {
      all.emplace_back(
          [this, optimized] { return make({.optimize = optimized, .change_between = true}); });
    }
    return all;
  }

  /// What is asked too about a frame that differs: Trial::look_again().
  [[nodiscard]] std::vector<measure::MakeReference> for_second_look() const {
    auto all = others();
    if (whole_.empty()) return all;
    for (auto& one :
         shaken_references(whole_, package_, backends_, {.optimize = options_.optimized})) {
      all.push_back(std::move(one));
    }
    return all;
  }

  [[nodiscard]] std::string describe() const {
    const std::string how = options_.optimized ? "optimised" : "not optimised";
    if (!why_.empty()) {
      return concat("the package's own stages, networks in ONNX Runtime, ", how,
                    ", one frame at a time, as ", why_);
    }
    if (!options_.model.empty()) {
      return "the whole model '" + options_.model.string() + "', " + how;
    }
    const auto& file = package_.plan.origin.model_file;
    return concat("the package's own stages one after the other, ", how, ", as ",
                  file.empty() ? "the model" : "'" + file + "'",
                  " is gone or changed since the package was made (give the whole one: ",
                  OptionName::kModel, ")");
  }

 private:
  const VerifyOptions& options_;
  const std::filesystem::path whole_;
  const std::string why_;
  const plan::Package& package_;
  pipeline::Options settings_;
  const backend::Registry& backends_;
};

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

/// Streams take turns: each gets all that are given, in their order.
Result<frames::Frame> frame_of(const VerifyOptions& options, const plan::Plan& plan,
                               std::uint64_t number, std::uint64_t streams) {
  if (!options.given.empty()) return options.given[number / streams % options.given.size()];
  return frames::random_frame(plan.inputs, options.random, number);
}

std::vector<std::string> names_of_outputs(const plan::Plan& plan) {
  std::vector<std::string> names;
  for (const auto& output : plan.outputs) names.push_back(output.name);
  return names;
}

/// That say what is allowed, `most` of them: the given ones that say the most, else random ones.
Result<std::vector<frames::Frame>> frames_to_try(const VerifyOptions& options,
                                                 const plan::Plan& plan, std::uint64_t most) {
  if (options.given.empty()) return frames::random_frames(plan.inputs, options.random, most);
  std::vector<frames::Frame> chosen;
  for (const auto i : measure::telling_frames(options.given, most, !plan.states.empty())) {
    chosen.push_back(options.given[i]);
  }
  return chosen;
}

/// The first kTriedFrames on which the reference does not fail.
std::vector<frames::Frame> that_come_out(std::vector<frames::Frame> frames,
                                         measure::Reference& reference) {
  std::vector<frames::Frame> good;
  for (auto& frame : frames) {
    if (good.size() == kTriedFrames) break;
    if (reference.run(frame)) good.push_back(std::move(frame));
  }
  return good;
}

/// Measured, without states on frames that the reference takes; or by the tolerance alone where it
/// fails on all, which the verification then tells frame by frame.
Result<measure::Judge> make_judge(const VerifyOptions& options, const plan::Package& package,
                                  const References& references, measure::Reference& reference) {
  const auto& plan = package.plan;
  const auto random = frames::random_frames(plan.inputs, options.random, kTriedFrames);
  const auto create = [&](const std::vector<frames::Frame>& frames) {
    return measure::Judge::create(
        {names_of_outputs(plan), options.tolerance, frames, references.others(),
         known_outputs(package), options.stopped, random ? *random : std::vector<frames::Frame>()},
        reference);
  };
  const bool stateless = plan.states.empty();
  PENSTOCK_TRY(const auto first,
               frames_to_try(options, plan, stateless ? kTriedFrames : kSequenceFrames));
  if (auto judge = create(first)) return judge;
  if (stateless && !options.stopped()) {
    PENSTOCK_TRY(auto more, frames_to_try(options, plan, kMostTried));
    const auto good = that_come_out(std::move(more), reference);
    if (!good.empty()) {
      if (auto judge = create(good)) return judge;
    }
  }
  return measure::Judge::unmeasured(names_of_outputs(plan), options.tolerance);
}

/// What all runs of verify() share, but for the sizes of random frames, which the inputs of
/// `package` tell.
struct Setting {
  pipeline::Pipeline& pipeline;
  const plan::Package& package;
  const VerifyOptions& options;
  const References& references;
  measure::Reference& reference;
};

Result<measure::VerifyReport> verify_frames(const Setting& setting, const VerifyOptions& options,
                                            const measure::Judge& judge, std::uint64_t frames) {
  const auto& plan = setting.package.plan;
  const auto streams = streams_in_turn(setting.pipeline);
  const auto frame = [&](auto number) { return frame_of(options, plan, number, streams); };
  return measure::verify({.pipeline = setting.pipeline,
                          .reference = setting.reference,
                          .judge = judge,
                          .others = setting.references.for_second_look(),
                          .frame = frame,
                          .frames = frames,
                          .streams = streams,
                          .bursts = bursts_of(setting.pipeline),
                          .inputs = plan.inputs,
                          .random = options.given.empty(),
                          .stopped = options.stopped,
                          .progress = [&](auto done) { options.progress(done, frames); }});
}

/// Whether nothing was seen against the output, but all frames gave it about the same.
bool hardly_varied(const measure::OutputVerdict& output) {
  const auto& allowed = output.allowed;
  return output.finding == measure::Finding::kInconclusive && allowed.drawn.empty() &&
         output.mismatches == 0 && allowed.compared && !allowed.told_apart;
}

bool all_finite(const std::vector<std::vector<Tensor>>& frames) {
  const auto is_finite = [](const Tensor& value) {
    if (value.kind() != Tensor::Kind::kDense || !is_float(value.dtype())) return true;
    for (std::size_t i = 0; i < value.count(); ++i) {
      const auto bits = load_bits(value.dtype(), value.data(), i);
      if (!std::isfinite(number_from_bits(value.dtype(), bits))) return false;
    }
    return true;
  };
  return std::ranges::all_of(
      frames, [&](const auto& outputs) { return std::ranges::all_of(outputs, is_finite); });
}

/// Outputs that no usual random frame changes, as a class of which a network is always sure, or a
/// sigmoid behind a large offset, are judged on other random numbers, of the same size and of
/// others, where some are found that tell frames apart.
Status try_other_scales(const Setting& setting, measure::VerifyReport& report) {
  auto options = setting.options;
  options.progress = [](std::uint64_t, std::uint64_t) {};
  auto& outputs = report.verdict.outputs;
  for (const double scale : kScales) {
    if (options.stopped() || std::ranges::none_of(outputs, hardly_varied)) return {};
    options.random.scale = scale;
    ++options.random.seed;
    PENSTOCK_TRY(const auto judge,
                 make_judge(options, setting.package, setting.references, setting.reference));
    if (!judge.is_measured() || !all_finite(judge.expected())) continue;
    bool tells = false;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      tells = tells || (hardly_varied(outputs[i]) && judge.allowances()[i].told_apart);
    }
    if (!tells) continue;
    PENSTOCK_TRY(auto other, verify_frames(setting, options, judge, kDefaultFrames));
    if (other.failed + other.unjudged > 0) continue;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      auto& found = other.verdict.outputs[i];
      if (!hardly_varied(outputs[i]) || found.finding == measure::Finding::kInconclusive) continue;
      outputs[i] = std::move(found);
      outputs[i].scale = scale;
    }
  }
  return {};
}

/// How many times as large open dimensions are as usual.
struct Times {
  std::int64_t size = 1;
  std::int64_t first = 1;  ///< Of the first of several dimensions: a batch, or steps.
};

/// Those that have a bound are half as large. Nothing: none is another.
std::optional<std::vector<plan::TensorInfo>> of_other_sizes(std::vector<plan::TensorInfo> inputs,
                                                            const Times& times) {
  std::set<std::string> firsts;
  for (const auto& input : inputs) {
    const auto& dims = input.type.dims;
    if (dims.size() > 1 && !dims[0].symbol.empty()) firsts.insert(dims[0].symbol);
  }
  bool changed = false;
  for (auto& input : inputs) {
    const bool is_list = input.type.dims.size() == 1;
    for (std::size_t axis = 0; axis < input.type.dims.size(); ++axis) {
      auto& dim = input.type.dims[axis];
      if (dim.fixed()) continue;
      const bool first = (axis == 0 && !is_list) || firsts.contains(dim.symbol);
      const auto usual = dim.likely();
      const bool bounded = dim.bound != Dim::kOpen;
      const auto other = bounded ? (usual + 1) / 2 : usual * (first ? times.first : times.size);
      (bounded ? dim.bound : dim.usual) = other;
      changed = changed || other != usual;
    }
  }
  return changed ? std::optional(std::move(inputs)) : std::nullopt;
}

/// Of the open dimensions.
std::int64_t longest_of(const std::vector<plan::TensorInfo>& inputs) {
  std::int64_t longest = 0;
  for (const auto& input : inputs) {
    for (const auto& dim : input.type.dims) {
      if (!dim.fixed()) longest = std::max(longest, dim.likely());
    }
  }
  return longest;
}

/// "ids=1x5, mask=1x5", of the inputs that are open.
std::string sizes_of(const std::vector<plan::TensorInfo>& inputs) {
  std::vector<std::string> sizes;
  for (const auto& input : inputs) {
    if (input.type.fixed()) continue;
    const auto size = [](const Dim& dim) { return std::to_string(dim.likely()); };
    sizes.push_back(concat(input.name, "=", join(input.type.dims, "x", size)));
  }
  return join(sizes, ", ");
}

/// What frames of other sizes said against an output, or for one of which nothing was sure.
void take_more_telling(measure::VerifyReport& report, measure::VerifyReport other) {
  using measure::Finding;
  for (std::size_t i = 0; i < report.verdict.outputs.size(); ++i) {
    auto& here = report.verdict.outputs[i];
    auto& there = other.verdict.outputs[i];
    const bool settles = here.finding == Finding::kInconclusive && there.finding == Finding::kRight;
    if (there.finding == Finding::kWrong || settles) here = std::move(there);
  }
  report.failed += other.failed;
  for (auto& failure : other.failures) report.failures.push_back(std::move(failure));
}

/// The first others that the network takes, in its reference; nothing where it takes none.
std::optional<std::vector<plan::TensorInfo>> find_other_sizes(const Setting& setting) {
  const auto& usual = setting.package.plan.inputs;
  const auto takes = [&](const std::vector<plan::TensorInfo>& inputs) {
    const auto frame = frames::random_frame(inputs, setting.options.random, 0);
    return frame && setting.reference.run(*frame);
  };
  for (const auto size : longest_of(usual) > kLong ? std::span(kTimes).last(1) : kTimes) {
    for (const auto first : kTimesFirst) {
      auto inputs = of_other_sizes(usual, {size, first});
      if (inputs && !setting.options.stopped() && takes(*inputs)) return inputs;
    }
  }
  return {};
}

/// Where sizes are open, frames of the usual ones may say little: of one step a softmax is 1, and a
/// network with states inside never reads them.
Status try_other_sizes(const Setting& setting, measure::VerifyReport& report) {
  auto inputs = find_other_sizes(setting);
  if (!inputs) return {};
  plan::Package package = setting.package;
  package.plan.inputs = *std::move(inputs);
  auto options = setting.options;
  options.progress = [](std::uint64_t, std::uint64_t) {};
  PENSTOCK_TRY(const auto judge,
               make_judge(options, package, setting.references, setting.reference));
  if (!judge.is_measured()) return {};
  const Setting other{setting.pipeline, package, options, setting.references, setting.reference};
  PENSTOCK_TRY(auto found, verify_frames(other, options, judge, kOtherFrames));
  if (found.interrupted) return {};
  report.other_sizes = sizes_of(package.plan.inputs);
  take_more_telling(report, std::move(found));
  return {};
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
  const auto streams = streams_in_turn(pipeline);
  std::uint64_t usual = options.given.size() * streams;
  if (options.given.empty()) {
    usual = streams == 1 ? kDefaultFrames : std::max(kDefaultFrames, kOfEachStream * streams);
  }
  // Of one stream with states a call has one frame, however many there are.
  if (streams == 1 && !pipeline.plan().states.empty()) return usual;
  const auto bursts = bursts_of(pipeline);
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
  const References references(options, whole.file, why, opened.package, settings, backends);
  PENSTOCK_TRY(const auto reference, references.make({.optimize = options.optimized}));
  auto judge = measure::Judge::unmeasured(names_of_outputs(plan), options.tolerance);
  // What a function keeps from frame to frame begins once for each pipeline.
  const bool repeats = why.empty() || std::ranges::none_of(plan.stages, &plan::Stage::stateful);
  if (repeats) {
    PENSTOCK_TRY(judge, make_judge(options, opened.package, references, *reference));
    PENSTOCK_CHECK_OK(reference->begin_sequence());
  }
  const auto frames = options.frames > 0 ? options.frames : usual_frames(options, *opened.pipeline);
  const Setting setting{*opened.pipeline, opened.package, options, references, *reference};
  PENSTOCK_TRY(auto report, verify_frames(setting, options, judge, frames));
  const bool random = options.given.empty() && plan.states.empty() && judge.is_measured();
  if (random && report.failed + report.unjudged == 0) {
    PENSTOCK_CHECK_OK(try_other_scales(setting, report));
    PENSTOCK_CHECK_OK(try_other_sizes(setting, report));
  }
  const bool one_size = random && !report.interrupted && report.other_sizes.empty() &&
                        of_other_sizes(plan.inputs, {.size = 2, .first = 2}).has_value();
  if (settings.warn && one_size && report.failed + report.unjudged == 0) {
    settings.warn(concat("sizes are open, but frames of ", sizes_of(plan.inputs),
                         " alone were tried, as the network takes no others that were: give sizes "
                         "(",
                         OptionName::kShapes, ") or frames (", OptionName::kFrames, ")"));
  }
  if (settings.warn && !report.interrupted) {
    for (const auto& sentence : unseen_sizes(*opened.pipeline)) settings.warn(sentence);
  }
  opened.pipeline->close();
  report.reference = references.describe();
  return report;
}

}  // namespace penstock
