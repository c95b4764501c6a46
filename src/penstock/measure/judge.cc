// Measures what is allowed by running the reference on changed frames, then decides by counts.
#include "penstock/measure/judge.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "penstock/base/option_name.h"
#include "penstock/device/device.h"
#include "penstock/measure/slow_runs.h"
#include "penstock/measure/variants.h"
#include "penstock/tensor/number.h"

namespace penstock::measure {
namespace {

/// Of the reference's own rounding: another engine adds in another order at every node, not only
/// where the inputs change.
constexpr double kMargin = 8;
/// Of the values that may lie outside.
constexpr double kMostRate = 0.01;
/// Of the values outside, that jumps may be blamed for, unless the reference itself jumps in more.
constexpr double kMostDoubt = 0.75;
/// Where values jump, they do so the more often, the larger the change: in f32 2^-15 times as often
/// as in bf16, and more often where rounding adds up.
constexpr double kF32Jumps = 1.0 / 256;
/// Of a frame's values: where more lie outside, they are not here and there.
constexpr double kWholeFrame = 0.1;
/// How much further than the reference's own jumps a value lies that may be none.
constexpr double kFar = 10;
/// By how much frames differ that can be told apart, in allowances.
constexpr double kApart = 10;
/// An engine may take what is smaller for 0.
constexpr double kLeastNormal = std::numeric_limits<float>::min();
constexpr double kAny = std::numeric_limits<double>::infinity();
constexpr std::uint64_t kChanges = 3;
/// Of what f16 gives: at each node that is rounded anew. Less than half of what bf16 does, which
/// has three digits fewer.
constexpr double kHalfMargin = 3;
constexpr std::size_t kProblemsKept = 5;
/// For a second look: frames, as jumps come by whole frames, and further ones that differ.
constexpr std::size_t kFramesKept = 8;
constexpr std::size_t kDifferingKept = 4;
/// More frames than that, as long as their values are small.
constexpr std::size_t kSmallFramesKept = 20;
constexpr std::size_t kSmallBytes = std::size_t{64} << 20U;

/// What cannot be compared differs in every value.
Comparison compare_all(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance) {
  auto result = compare(actual, expected, tolerance);
  if (result.problem.empty()) return result;
  result.count = result.mismatches = std::max<std::size_t>(result.count, 1);
  result.worst_ratio = result.largest_error = std::numeric_limits<double>::infinity();
  return result;
}

/// Rounded to f16; where all are of f16 before, one unit in the last place larger or smaller.
frames::Frame in_half(const frames::Frame& frame, std::uint64_t seed) {
  auto rounded = rounded_to(DType::kF16, frame);
  return same_values(rounded, frame) ? with_last_bits_changed(frame, seed) : rounded;
}

Tolerance with_floor(Tolerance tolerance, double floor) {
  tolerance.floor = std::max(floor, kLeastNormal);
  return tolerance;
}

/// How many of `values` may lie outside by luck: the rate, and three deviations of the count more.
double most_by_luck(double rate, std::size_t values) {
  const double mean = rate * static_cast<double>(values);
  return mean > 0 ? mean + 3 * std::sqrt(mean) + 1 : 0;
}

/// How many of `values` may lie outside: no more than the ceiling.
std::size_t most_outside(double rate, std::size_t values) {
  const double most = kMostRate * static_cast<double>(values);
  return static_cast<std::size_t>(std::min(most_by_luck(rate, values), most));
}

/// Whether the values outside, however few of all they are, are a frame's own, as where a frame
/// gets another's output or a row of a batch is wrong, or lie where no jump of the reference's was.
bool is_like_no_jump(const OutputVerdict& output) {
  const double jump = output.allowed.jump;
  const bool far = jump > 0 && output.largest_error > kFar * jump;
  return output.mismatches > 0 && (output.whole_frame > 0 || far);
}

/// What the second look says of such values: wrong where they lie further than the disturbed
/// reference ever jumps, or are ten times as many in a frame; in doubt where they are a whole
/// frame's, unless they are its own jumps.
Finding finding_of(const OutputVerdict& output, const JumpVerdict& jumps) {
  const bool jumped = jumps.most_size > 0;
  const bool far = output.largest_error > kFar * output.allowed.jump;
  const bool more = jumped && output.whole_frame > kFar * jumps.most_in_frame;
  if (more || ((jumped || far) && output.largest_error > jumps.most_size)) return Finding::kWrong;
  const bool own = output.whole_frame == 0 || jumps.likeness == Likeness::kOwn;
  return own ? Finding::kRight : Finding::kInconclusive;
}

/// Whether what lies outside may be jumps as the reference's own: no more often than twice, and no
/// further than twice.
bool may_have_jumped(const OutputVerdict& output) {
  const double own = output.allowed.own_rate;
  const double rate = own > kMostDoubt ? 1 : std::min(2 * own, kMostDoubt);
  return static_cast<double>(output.mismatches) <= rate * static_cast<double>(output.values) &&
         output.largest_error <= 2 * output.allowed.jump;
}

/// Whether the outputs of two frames differ by ten times what is allowed.
bool differ(const Tensor& one, const Tensor& other, const Allowance& allowed) {
  auto tolerance = allowed.tolerance;
  tolerance.relative *= kApart;
  tolerance.absolute *= kApart;
  tolerance.floor *= kApart;
  tolerance.steps *= kApart;
  const auto result = compare_all(other, one, tolerance);
  return static_cast<double>(result.mismatches) >
         kApart * allowed.rate * static_cast<double>(result.count);
}

bool is_empty(const Tensor& tensor) {
  return tensor.kind() == Tensor::Kind::kDense && tensor.count() == 0;
}

/// The outputs of two different frames; where there is nothing in them, none is another's.
void note_pair(Allowance& allowed, const Tensor& one, const Tensor& other) {
  if (allowed.constant || (is_empty(one) && is_empty(other))) return;
  allowed.compared = true;
  allowed.told_apart = allowed.told_apart || differ(one, other, allowed);
}

/// Whether another frame's output would pass, as far as was seen.
bool cannot_tell(const Allowance& allowed) {
  return (allowed.alone && !allowed.constant) || (allowed.compared && !allowed.told_apart);
}

/// Whether no two values of an output of 8-bit integers are more than `steps` apart, as in a mask:
/// then to allow a step is to allow all.
bool lie_within(double steps, const std::vector<std::vector<Tensor>>& outputs, std::size_t output) {
  double least = kAny, most = -kAny;
  for (const auto& frame : outputs) {
    const Tensor& value = frame[output];
    const bool narrow = value.kind() == Tensor::Kind::kDense &&
                        (value.dtype() == DType::kU8 || value.dtype() == DType::kI8);
    if (!narrow) return false;
    for (std::size_t i = 0; i < value.count(); ++i) {
      const auto bits = load_bits(value.dtype(), value.data(), i);
      const double number = number_from_bits(value.dtype(), bits);
      least = std::min(least, number);
      most = std::max(most, number);
    }
  }
  return most - least <= steps;
}

bool is_all_nan(const Tensor& value) {
  if (value.kind() != Tensor::Kind::kDense || !is_float(value.dtype())) return false;
  for (std::size_t i = 0; i < value.count(); ++i) {
    const auto bits = load_bits(value.dtype(), value.data(), i);
    if (!std::isnan(number_from_bits(value.dtype(), bits))) return false;
  }
  return value.count() > 0;
}

bool are_all_same(std::span<const frames::Frame> frames) {
  return std::ranges::all_of(frames,
                             [&](const auto& frame) { return same_values(frame, frames.front()); });
}

std::size_t bytes_of(const std::vector<Tensor>& values) {
  std::size_t bytes = 0;
  for (const auto& value : values) {
    if (value.kind() == Tensor::Kind::kDense) bytes += value.bytes();
  }
  return bytes;
}

std::string percent(double share) {
  return concat(share * 100, " %");
}

/// Why no verdict can be sure: random numbers, frames that are not told apart, else jumps.
std::string doubt(const Allowance& allowed) {
  if (!allowed.drawn.empty()) {
    return concat("output '", allowed.output, "' depends on ", allowed.drawn,
                  ", which draws random numbers: no two runs agree, so that nothing can be said of "
                  "it; to compare the rest of the network, export it with the numbers as an input");
  }
  if (allowed.nan) {
    return concat("output '", allowed.output,
                  "': all its values are NaN on these frames, so that the output of a wrong frame "
                  "would pass too: give frames on which the network has numbers (",
                  OptionName::kFrames, ")");
  }
  if (allowed.alone && allowed.empty) {
    return concat("output '", allowed.output,
                  "': the inputs hold no elements, so that no frame differs from another one, and "
                  "whether frames get each other's outputs cannot be seen: give frames with "
                  "elements (",
                  OptionName::kFrames,
                  ") where the inputs' shapes are open; where they are fixed, "
                  "nothing more can be told");
  }
  if (allowed.alone) {
    return concat("output '", allowed.output,
                  "': all frames are the same, so that the output of a wrong frame would pass too: "
                  "give frames that differ (",
                  OptionName::kFrames, ")");
  }
  if (allowed.compared && !allowed.told_apart) {
    return concat("output '", allowed.output,
                  "': different frames give what differs by less than ten times what is allowed, "
                  "so that the output of a wrong frame would pass too: give frames that the "
                  "network answers differently (",
                  OptionName::kFrames, ")");
  }
  return concat("output '", allowed.output, "': the reference itself differs in ",
                percent(allowed.own_rate),
                " of its values where its inputs change in the last bits, or its engine's "
                "settings: give frames on which it does not (",
                OptionName::kFrames, ")");
}

/// By the second look, as far as it goes for the frames that it did not see; else by the first.
Likeness likeness_of(const OutputVerdict& output) {
  if (!output.jumps) return may_have_jumped(output) ? Likeness::kOpen : Likeness::kNone;
  const auto& jumps = *output.jumps;
  if (output.largest_error > jumps.most_size) return Likeness::kNone;
  const bool more =
      output.largest_error > jumps.size ||
      static_cast<double>(output.mismatches) > jumps.share * static_cast<double>(output.values);
  return more ? std::min(jumps.likeness, Likeness::kOpen) : jumps.likeness;
}

std::string reason_of_jumps(const OutputVerdict& output) {
  const auto here =
      concat(output.mismatches, " of ", output.values, " values lie outside the tolerance");
  if (!output.jumps) return concat(doubt(output.allowed), "; here ", here);
  return concat(output.problems.front(), "; ", here, ", and the reference itself differs in ",
                percent(output.jumps->own_share),
                " where its inputs or its quantisation steps change in the last bits, or its "
                "engine's settings, so that a fault could look the same: give frames on which it "
                "does not (",
                OptionName::kFrames, ")");
}

/// Decides on one output by what all frames showed.
void decide(OutputVerdict& output) {
  const auto& allowed = output.allowed;
  const auto most = most_outside(allowed.rate, output.values);
  const auto likeness = likeness_of(output);
  const auto rare = output.mismatches <= most && output.jumps && is_like_no_jump(output)
                        ? finding_of(output, *output.jumps)
                        : Finding::kRight;
  if (!allowed.drawn.empty()) {
    output.finding = Finding::kInconclusive;
    output.reason = doubt(allowed);
  } else if (output.mismatches > most && likeness == Likeness::kNone) {
    output.finding = Finding::kWrong;
    output.reason = output.problems.front();
    if (most == 0) return;
    output.reason += concat("; of all ", output.values, " values ", output.mismatches,
                            " lie outside, where ", most, " may");
  } else if (rare == Finding::kWrong) {
    output.finding = Finding::kWrong;
    output.reason = concat(output.problems.front(), "; the reference itself jumps in ",
                           percent(output.jumps->most_in_frame),
                           " of a frame's values at most, and no further than ",
                           std::max(allowed.jump, output.jumps->most_size / 2));
  } else if (rare == Finding::kInconclusive ||
             (output.mismatches > most && likeness == Likeness::kOpen)) {
    output.finding = Finding::kInconclusive;
    output.reason = reason_of_jumps(output);
  } else if (cannot_tell(allowed)) {
    output.finding = Finding::kInconclusive;
    output.reason = doubt(allowed);
  }
}

/// In memory of their own: a value in the engine's keeps what lies beside it there, which can be
/// all of the network's weights.
std::vector<Tensor> kept(std::vector<Tensor> values) {
  for (auto& value : values) {
    if (value.kind() == Tensor::Kind::kDense && value.in_host_memory()) value = value.clone();
  }
  return values;
}

/// Changed and random values may never end where those that were given do: a run is given up after
/// so long, or after so many times as long as the longest of these.
constexpr std::chrono::nanoseconds kLeastLimit = std::chrono::seconds(3);
constexpr std::chrono::nanoseconds kLeastLimitOfOthers = std::chrono::seconds(10);
constexpr int kLongRun = 10;

/// Calls `note(f, outputs)` for each frame of which, as `change(f)` gives it, the reference makes
/// outputs, until one does not end.
void run_each(const Judge::Setting& setting, Reference& reference, const auto& change,
              const auto& note) {
  for (std::size_t f = 0; f < setting.frames.size() && !setting.stopped(); ++f) {
    const auto outputs = reference.run(change(f));
    if (outputs) note(f, *outputs);
    if (is_endless(outputs)) return;
  }
}

auto as_they_are(const Judge::Setting& setting) {
  return [&setting](std::size_t f) -> const frames::Frame& { return setting.frames[f]; };
}

}  // namespace

std::string_view to_string(Finding finding) {
  switch (finding) {
    case Finding::kRight:
      return "right";
    case Finding::kInconclusive:
      return "inconclusive";
    case Finding::kWrong:
      break;
  }
  return "wrong";
}

std::string explain(const Allowance& allowed) {
  const auto& [relative, absolute, steps, floor] = allowed.tolerance;
  std::string text = concat(relative, " |e| + ", absolute, " max|e|");
  if (!allowed.measured) return text + ", nothing else: the reference ran once";
  if (allowed.last_rounding > kMargin * allowed.rounding) {
    text += concat(" + ", floor, ", what its last function rounds near 0 or 1");
  } else if (allowed.half > 0 && floor > kMargin * allowed.rounding) {
    text += concat(" + ", floor, ", 3 times what f16 gives, in which the network computes");
  } else if (allowed.rounding > 0) {
    text += concat(" + ", floor, ", 8 times the reference's own rounding of ", allowed.rounding,
                   " (bf16 gives ", allowed.bf16, ")");
  } else {
    text += ", rounding changes no value of the reference";
  }
  if (const auto& [axis, rows, hidden] = allowed.hidden; hidden > 0) {
    text += concat("; in ", hidden, " of the ", rows, " rows of axis ", axis,
                   " no value is larger than that, so that others as small would pass");
  }
  if (allowed.rate == 0) return text + "; no value may lie outside";
  return concat(text, "; ", percent(allowed.rate), " of the values may lie outside, as ",
                percent(allowed.own_rate), " of the reference's own jump");
}

std::string explain(const OutputVerdict& output) {
  auto text = explain(output.allowed);
  if (!output.jumps || output.jumps->own_share == 0) return text;
  return concat(text, "; in the second look ", percent(output.jumps->share),
                " of the values may jump, by ", output.jumps->size, " at most, as ",
                percent(output.jumps->own_share), " of the disturbed reference's do");
}

Finding Verdict::finding() const {
  auto worst = Finding::kRight;
  for (const auto& output : outputs) worst = std::max(worst, output.finding);
  return worst;
}

std::string Verdict::reason(Finding finding) const {
  const auto found = std::ranges::find(outputs, finding, &OutputVerdict::finding);
  return found == outputs.end() ? std::string() : found->reason;
}

std::map<std::string, std::string> Verdict::doubts() const {
  std::map<std::string, std::string> doubts;
  for (const auto& output : outputs) {
    if (output.finding != Finding::kInconclusive) continue;
    doubts.emplace(output.allowed.output, output.reason);
  }
  return doubts;
}

Result<Judge> Judge::create(const Setting& setting, Reference& reference) {
  Judge judge = unmeasured(setting.outputs, setting.tolerance);
  PENSTOCK_CHECK_OK(judge.run_usual(setting, reference));
  judge.take_known(setting.known);
  const LimitedRuns limited(reference, judge.limits_.changed);
  PENSTOCK_CHECK_OK(judge.run_in_bf16(setting, reference));
  PENSTOCK_CHECK_OK(judge.run_in_half(setting, reference));
  PENSTOCK_CHECK_OK(judge.run_changed(setting, reference));
  judge.run_others(setting);
  judge.conclude();
  judge.tell_apart(setting, reference);
  return judge;
}

/// What all others are compared with, and how long they may take.
Status Judge::run_usual(const Setting& setting, Reference& reference) {
  PENSTOCK_CHECK_OK(reference.begin_sequence());
  const LimitedRuns limited(reference, setting.longest_run);
  std::chrono::nanoseconds longest{0};
  for (const auto& frame : setting.frames) {
    const auto begin = std::chrono::steady_clock::now();
    auto outputs = reference.run(frame);
    if (is_endless(outputs) && setting.longest_run) return endless_run(*setting.longest_run);
    if (!outputs) return std::move(outputs).error();
    longest = std::max(longest, std::chrono::steady_clock::now() - begin);
    expected_.push_back(kept(*std::move(outputs)));
  }
  // One thread may take as many times as long as there are CPUs.
  const auto cpus = static_cast<int>(std::max<std::size_t>(device::inherited_cpus().size(), 1));
  limits_ = {std::max(kLeastLimit, kLongRun * longest),
             std::max(kLeastLimitOfOthers, cpus * kLongRun * longest)};
  return {};
}

void Judge::take_known(const std::vector<KnownOutput>& known) {
  for (std::size_t i = 0; i < known.size(); ++i) {
    allowances_[i].last_rounding = known[i].last_rounding;
    allowances_[i].constant = known[i].constant;
    allowances_[i].drawn = known[i].drawn;
    allowances_[i].exact = known[i].exact;
    allowances_[i].wide = known[i].wide;
  }
  for (std::size_t i = 0; i < allowances_.size(); ++i) {
    const bool mask = lie_within(base_.steps, expected_, i);
    allowances_[i].exact = allowances_[i].exact || mask;
  }
  bf16_.resize(allowances_.size());
  own_.resize(allowances_.size());
}

Status Judge::run_in_bf16(const Setting& setting, Reference& reference) {
  PENSTOCK_CHECK_OK(reference.begin_sequence());
  run_each(
      setting, reference,
      [&](std::size_t f) { return rounded_to(DType::kBF16, setting.frames[f]); },
      [&](std::size_t f, const auto& rounded) { note_bf16(f, rounded); });
  return {};
}

/// The inputs rounded, and all that is computed on the way.
Status Judge::run_in_half(const Setting& setting, Reference& reference) {
  if (std::ranges::none_of(setting.known, &KnownOutput::half)) return {};
  const auto note = [&](std::size_t f, const auto& rounded) {
    note_half(f, rounded, setting.known);
  };
  PENSTOCK_CHECK_OK(reference.begin_sequence());
  run_each(
      setting, reference, [&](std::size_t f) { return in_half(setting.frames[f], f + 1); }, note);
  if (!setting.half || setting.stopped()) return {};
  const auto noisy = setting.half();
  if (!noisy) return {};
  (*noisy)->limit_runs(limits_.others);
  run_each(setting, **noisy, as_they_are(setting), note);
  return {};
}

Status Judge::run_changed(const Setting& setting, Reference& reference) {
  const auto& frames = setting.frames;
  const bool wide = std::ranges::all_of(allowances_, &Allowance::wide);
  for (std::uint64_t change = 0; change < kChanges; ++change) {
    std::vector<frames::Frame> changed;
    for (std::size_t f = 0; f < frames.size(); ++f) {
      const auto seed = change * frames.size() + f + 1;
      changed.push_back(with_last_bits_changed(frames[f], seed, {.wide = wide}));
    }
    if (std::ranges::equal(changed, frames, same_values)) continue;
    PENSTOCK_CHECK_OK(reference.begin_sequence());
    run_each(
        setting, reference, [&](std::size_t f) -> const auto& { return changed[f]; },
        [&](std::size_t f, const auto& outputs) { note_run(0, f, outputs); });
  }
  return {};
}

Judge Judge::unmeasured(const std::vector<std::string>& outputs, const Tolerance& tolerance) {
  Judge judge;
  judge.base_ = tolerance;
  for (const auto& name : outputs) {
    judge.allowances_.push_back({.output = name, .tolerance = with_floor(tolerance, 0)});
  }
  return judge;
}

Tolerance Judge::base_of(std::size_t output) const {
  Tolerance base = base_;
  if (allowances_[output].exact) base.steps = 0;
  return base;
}

/// What bf16 gives at least: the inputs rounded, or the outputs.
void Judge::note_bf16(std::size_t frame, const std::vector<Tensor>& rounded) {
  for (std::size_t i = 0; i < allowances_.size(); ++i) {
    const auto& expected = expected_[frame][i];
    const auto result = compare_all(rounded[i], expected, base_of(i));
    bf16_[i].values += result.count;
    bf16_[i].outside += result.mismatches;
    allowances_[i].bf16 =
        std::max({allowances_[i].bf16, largest_error(rounded[i], expected, kAny),
                  largest_error(rounded_to(DType::kBF16, expected), expected, kAny)});
  }
}

void Judge::note_half(std::size_t frame, const std::vector<Tensor>& rounded,
                      const std::vector<KnownOutput>& known) {
  for (std::size_t i = 0; i < allowances_.size(); ++i) {
    if (!known[i].half) continue;
    const auto& expected = expected_[frame][i];
    allowances_[i].half =
        std::max({allowances_[i].half, largest_error(rounded[i], expected, kAny),
                  largest_error(rounded_to(DType::kF16, expected), expected, kAny)});
  }
}

/// Errors of which the margin would lift the floor over half of bf16's are jumps.
void Judge::note_run(std::size_t way, std::size_t frame, const std::vector<Tensor>& outputs) {
  for (std::size_t i = 0; i < allowances_.size(); ++i) {
    auto& allowed = allowances_[i];
    const auto& expected = expected_[frame][i];
    const double most = allowed.bf16 / (2 * kMargin);
    const auto jumps = compare_all(outputs[i], expected,
                                   with_floor(base_of(i), std::max(most, allowed.last_rounding)));
    if (own_[i].size() <= way) own_[i].resize(way + 1);
    own_[i][way].values += jumps.count;
    own_[i][way].outside += jumps.mismatches;
    if (jumps.mismatches > 0) {
      const bool has_size = expected.kind() == Tensor::Kind::kDense && is_float(expected.dtype());
      allowed.jump = std::max(allowed.jump, has_size ? jumps.largest_error : kAny);
    }
    // Where more than a few jump, the others' errors come of that too.
    if (static_cast<double>(jumps.mismatches) > kMostRate * static_cast<double>(jumps.count)) {
      continue;
    }
    const double rounding = largest_error(outputs[i], expected, most);
    allowed.rounding = std::max(allowed.rounding, rounding);
    if (jumps.mismatches > 0 || rounding == 0) continue;
    const double ratio = compare(outputs[i], expected, base_of(i)).worst_ratio;
    factor_ = std::max(factor_, std::min(ratio, kMargin));
  }
}

void Judge::run_others(const Setting& setting) {
  for (std::size_t other = 0; other < setting.others.size(); ++other) {
    if (setting.stopped()) return;
    const auto made = setting.others[other]();
    if (!made) continue;
    (*made)->limit_runs(limits_.others);
    run_each(setting, **made, as_they_are(setting),
             [&](std::size_t f, const auto& outputs) { note_run(1 + other, f, outputs); });
  }
}

void Judge::conclude() {
  for (std::size_t i = 0; i < allowances_.size(); ++i) {
    auto& allowed = allowances_[i];
    for (const auto& count : own_[i]) allowed.own_rate = std::max(allowed.own_rate, count.share());
    allowed.measured = true;
    allowed.discrete = allowed.rounding == 0 && allowed.last_rounding == 0;
    allowed.tolerance =
        with_floor(base_of(i), std::max({kMargin * allowed.rounding, allowed.last_rounding,
                                         std::min(kHalfMargin * allowed.half, allowed.bf16 / 2)}));
    const double seldom = allowed.discrete ? kF32Jumps * bf16_[i].share() : 0;
    allowed.rate = std::min(std::max(kMargin * allowed.own_rate, seldom), kMostRate);
    std::vector<const Tensor*> outputs;
    for (const auto& frame : expected_) outputs.push_back(&frame[i]);
    allowed.hidden = find_hidden_rows(outputs, allowed.tolerance);
  }
}

void Judge::tell_apart(const Setting& setting, Reference& reference) {
  std::vector<frames::Frame> all(setting.frames.begin(), setting.frames.end());
  auto outputs = expected_;
  const auto add = [&](frames::Frame frame) {
    const auto begun = reference.begin_sequence();
    auto ran = begun ? reference.run(frame) : begun.error();
    if (!ran) return !is_endless(ran);
    all.push_back(std::move(frame));
    outputs.push_back(*std::move(ran));
    return true;
  };
  // Of one frame alone nothing can be said: its own values in another order are a second, and where
  // they are all the same, as silence is, others are.
  if (!all.empty() && are_all_same(all)) {
    add(reversed(all.front()));
    for (std::size_t i = 0; i < setting.further.size() && are_all_same(all); ++i) {
      if (!add(setting.further[i])) break;
    }
    const bool alone = !all.front().empty() && are_all_same(all);
    const bool empty = alone && std::ranges::all_of(all.front(), is_empty);
    for (auto& allowed : allowances_) {
      allowed.alone = alone;
      allowed.empty = empty;
    }
  }
  for (std::size_t i = 0; i < allowances_.size(); ++i) {
    allowances_[i].nan = !outputs.empty() && std::ranges::all_of(outputs, [&](const auto& frame) {
      return is_all_nan(frame[i]);
    });
  }
  for (std::size_t f = 0; f < all.size(); ++f) {
    for (std::size_t g = 0; g < f; ++g) {
      if (same_values(all[f], all[g])) continue;
      for (std::size_t i = 0; i < allowances_.size(); ++i) {
        note_pair(allowances_[i], outputs[f][i], outputs[g][i]);
      }
    }
  }
}

Trial::Trial(const Judge& judge) : limits_(judge.limits()) {
  for (const auto& allowed : judge.allowances()) {
    outputs_.push_back({.allowed = allowed, .reason = {}, .problems = {}});
  }
}

void Trial::add(std::uint64_t number, const frames::Frame& inputs,
                std::span<const Tensor* const> actual, const std::vector<Tensor>& expected) {
  std::vector<Comparison> found;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    auto& output = outputs_[i];
    const auto& result =
        found.emplace_back(compare_all(*actual[i], expected[i], output.allowed.tolerance));
    output.values += result.count;
    output.mismatches += result.mismatches;
    output.largest_error = std::max(output.largest_error, result.largest_error);
    output.worst_ratio = std::max(output.worst_ratio, result.worst_ratio);
    const auto whole = std::max(kWholeFrame * static_cast<double>(result.count),
                                most_by_luck(output.allowed.rate, result.count));
    if (static_cast<double>(result.mismatches) > whole) {
      const auto share = static_cast<double>(result.mismatches) / static_cast<double>(result.count);
      output.whole_frame = std::max(output.whole_frame, share);
    }
    if (result.mismatches == 0 || ++output.frames_differing > kProblemsKept) continue;
    output.problems.push_back(
        concat("frame ", number, ": output '", output.allowed.output, "': ", to_string(result)));
  }
  for (const auto& [other_inputs, other_expected] : seen_) {
    if (same_values(inputs, other_inputs)) continue;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      outputs_[i].allowed.alone = false;
      note_pair(outputs_[i].allowed, other_expected[i], expected[i]);
    }
  }
  if (seen_.size() == 2) seen_.pop_back();
  seen_.push_back({inputs, expected});
  const bool differs =
      std::ranges::any_of(found, [](const auto& one) { return one.mismatches > 0; });
  const bool small = kept_.size() < kSmallFramesKept && kept_bytes_ <= kSmallBytes;
  const bool further = kept_.size() >= kFramesKept && !small;
  if (further && (!differs || kept_differing_ == kDifferingKept)) return;
  kept_differing_ += further ? 1 : 0;
  std::vector<Tensor> values;
  for (const auto* value : actual) values.push_back(value->clone());  // Slots are used again.
  kept_bytes_ += bytes_of(inputs) + 2 * bytes_of(values);
  kept_.push_back({inputs, expected, std::move(values), std::move(found)});
}

bool Trial::needs_second_look() const {
  return std::ranges::any_of(outputs_, [](const OutputVerdict& output) {
    const bool often = output.mismatches > most_outside(output.allowed.rate, output.values);
    return (often || is_like_no_jump(output)) && output.allowed.drawn.empty();
  });
}

void Trial::look_again(Reference& reference, std::span<const MakeReference> others) {
  if (!needs_second_look()) return;
  std::vector<Allowed> allowed;
  for (const auto& output : outputs_) {
    allowed.push_back({output.allowed.tolerance, output.allowed.rate, output.allowed.wide});
  }
  auto jumps = look_at_jumps(kept_, allowed, reference, others, limits_);
  for (std::size_t i = 0; i < outputs_.size(); ++i) outputs_[i].jumps = jumps[i];
}

Verdict Trial::verdict() const {
  Verdict verdict{outputs_};
  for (auto& output : verdict.outputs) decide(output);
  return verdict;
}

}  // namespace penstock::measure
