// Scales and sizes are tried in turn, until one tells frames apart that the network takes.
#include "penstock/session/other_frames.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/option_name.h"
#include "penstock/frames/random.h"
#include "penstock/measure/reference.h"
#include "penstock/measure/slow_runs.h"
#include "penstock/session/judging.h"
#include "penstock/tensor/number.h"

namespace penstock {
namespace {

constexpr std::uint64_t kScaledFrames = 20;
constexpr std::uint64_t kTaken = 2;        // The second reads what the first wrote of states.
constexpr std::uint64_t kOtherFrames = 4;  ///< Of other sizes than the usual ones,
constexpr std::int64_t kTimes[] = {5, 8, 16, 2};  ///< so many times as large, the first that fits,
constexpr std::int64_t kTimesFirst[] = {2, 1};    ///< but the first of several dimensions,
constexpr std::int64_t kLong = 8;  ///< or twice, where the usual ones are above this.
/// By which other random numbers are multiplied, in turn, where the usual ones give all the same.
constexpr double kScales[] = {1, 8, 1.0 / 8, 64, 1.0 / 64, 512};

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

/// Frames that the reference takes, and the pipeline does not.
void take_failures(measure::VerifyReport& report, const measure::VerifyReport& other,
                   const std::string& with) {
  report.failed += other.failed;
  for (const auto& failure : other.failures) {
    report.failures.push_back(concat("with ", with, ": ", failure));
  }
}

/// What frames of other sizes said against an output, or for one of which nothing was sure and
/// against which nothing was seen.
void take_more_telling(measure::VerifyReport& report, measure::VerifyReport other) {
  using measure::Finding;
  const auto& sizes = report.other_sizes;
  for (std::size_t i = 0; i < report.verdict.outputs.size(); ++i) {
    auto& here = report.verdict.outputs[i];
    auto& there = other.verdict.outputs[i];
    if (here.finding == Finding::kWrong) continue;
    const bool settles = here.finding == Finding::kInconclusive && here.mismatches == 0 &&
                         there.finding == Finding::kRight;
    if (there.finding != Finding::kWrong && !settles) continue;
    here = std::move(there);
    if (!here.reason.empty()) here.reason = concat("with ", sizes, ": ", here.reason);
    for (auto& problem : here.problems) problem = concat("with ", sizes, ": ", problem);
  }
  take_failures(report, other, sizes);
}

/// Nothing where the network takes none, or where what is allowed cannot be measured on them.
Result<std::optional<measure::VerifyReport>> judge_other_sizes(const VerifyRun& usual) {
  auto inputs = find_other_sizes(usual.package.plan.inputs, usual.options.random, usual.reference,
                                 usual.options.stopped);
  if (!inputs) return std::optional<measure::VerifyReport>();
  plan::Package package = usual.package;
  package.plan.inputs = *std::move(inputs);
  auto options = usual.options;
  options.progress = [](std::uint64_t, std::uint64_t) {};
  const VerifyRun other{usual.pipeline,   package,         options,
                        usual.references, usual.reference, usual.on_long_run};
  const auto made = make_judge(other);
  if (!made && !measure::is_endless_run(made.error())) return made.error();
  if (!made || !made->is_measured()) return std::optional<measure::VerifyReport>();
  const auto& judge = *made;
  PENSTOCK_CHECK_OK(usual.reference.begin_sequence());
  PENSTOCK_CHECK_OK(usual.pipeline.reset_states());
  PENSTOCK_TRY(auto found, judge_frames(other, judge, kOtherFrames));
  found.other_sizes = join(frames::open_sizes(package.plan.inputs), ", ");
  return std::optional(std::move(found));
}

}  // namespace

std::optional<std::vector<plan::TensorInfo>> find_other_sizes(
    const std::vector<plan::TensorInfo>& inputs, const frames::RandomValues& random,
    measure::Reference& reference, const std::function<bool()>& stopped) {
  const measure::LimitedRuns limited(reference, measure::kLongestRun);
  bool endless = false;
  const auto takes = [&](const std::vector<plan::TensorInfo>& others) {
    const auto frames = frames::random_frames(others, random, kTaken);
    const auto comes_out = [&](const auto& frame) {
      const auto ran = reference.run(frame);
      endless = measure::is_endless(ran);
      return bool(ran);
    };
    return frames && reference.begin_sequence() && std::ranges::all_of(*frames, comes_out);
  };
  for (const auto size : longest_of(inputs) > kLong ? std::span(kTimes).last(1) : kTimes) {
    for (const auto first : kTimesFirst) {
      auto others = of_other_sizes(inputs, {size, first});
      if (others && !stopped() && !endless && takes(*others)) return others;
    }
  }
  return {};
}

bool have_other_sizes(const std::vector<plan::TensorInfo>& inputs) {
  return of_other_sizes(inputs, {.size = 2, .first = 2}).has_value();
}

std::string tell_usual_sizes(const std::vector<plan::TensorInfo>& inputs) {
  return concat("sizes are open, but frames of ", join(frames::open_sizes(inputs), ", "),
                " alone were tried, as the network takes no others that were: give sizes (",
                OptionName::kShapes, ") or frames (", OptionName::kFrames, ")");
}

Status try_other_scales(const VerifyRun& usual, measure::VerifyReport& report) {
  auto options = usual.options;
  options.progress = [](std::uint64_t, std::uint64_t) {};
  const VerifyRun scaled{usual.pipeline,   usual.package,   options,
                         usual.references, usual.reference, usual.on_long_run};
  auto& outputs = report.verdict.outputs;
  for (const double scale : kScales) {
    if (options.stopped() || std::ranges::none_of(outputs, hardly_varied)) return {};
    options.random.scale = scale;
    ++options.random.seed;
    const auto made = make_judge(scaled);
    if (!made && measure::is_endless_run(made.error())) return {};
    if (!made) return made.error();
    const auto& judge = *made;
    if (!judge.is_measured() || !all_finite(judge.expected())) continue;
    bool tells = false;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      tells = tells || (hardly_varied(outputs[i]) && judge.allowances()[i].told_apart);
    }
    if (!tells) continue;
    PENSTOCK_TRY(auto other, judge_frames(scaled, judge, kScaledFrames));
    if (other.failed > 0) {
      take_failures(report, other, concat("random values ", scale, " times as large"));
      return {};
    }
    if (other.unjudged > 0) continue;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      auto& found = other.verdict.outputs[i];
      if (!hardly_varied(outputs[i]) || found.finding == measure::Finding::kInconclusive) continue;
      outputs[i] = std::move(found);
      outputs[i].scale = scale;
    }
  }
  return {};
}

Status try_other_sizes(const VerifyRun& usual, measure::VerifyReport& report,
                       const std::function<void(const std::string&)>& warn) {
  const auto& inputs = usual.package.plan.inputs;
  if (!have_other_sizes(inputs)) return {};
  PENSTOCK_TRY(auto found, judge_other_sizes(usual));
  if (usual.options.stopped()) return {};
  if (found) {
    report.other_sizes = found->other_sizes;
    take_more_telling(report, *std::move(found));
  } else if (warn) {
    warn(tell_usual_sizes(inputs));
  }
  return {};
}

}  // namespace penstock
