// Runs the reference with disturbed inputs and settings, and tries whether faults would show.
#include "penstock/measure/jumps.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "penstock/measure/variants.h"

namespace penstock::measure {
namespace {

/// Of the values that may jump, whatever the reference does,
constexpr double kMostJumping = 0.75;
/// and for a verdict that is sure.
constexpr double kMostSure = 0.5;
/// Of the frames that differ, those in which no disturbed reference does.
constexpr double kMostStrange = 0.25;
/// Of all frames, those that differ: so few need not be those of one disturbed reference, as where
/// each of two ties is another's.
constexpr double kFewFrames = 0.125;
/// By how much another engine may jump more often or further: it rounds at each node.
constexpr double kOwnMargin = 2;
/// By how much frames differ that can be told apart, in what the reference differs by from itself.
constexpr double kOwnApart = 10;
/// By how much jumps of one step differ, as both their ends are rounded.
constexpr double kStepRounding = 1e-3;
/// Of the frames that were not asked for.
constexpr double kLuck = 1.25;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::uint64_t kLooks = 8;  ///< At a frame with its inputs changed
constexpr std::uint64_t kUnits = 8;  ///< by so many units in the last place.

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double deviation_of(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

bool is_outside(const Differences& found, const JumpVerdict& allowed) {
  return found.share() > allowed.share || found.largest > allowed.size;
}

/// Whether a fault is refused in half of the frames and places that it changes, each by itself.
bool is_told(const std::vector<Differences>& fault, const JumpVerdict& allowed) {
  const auto told =
      std::ranges::count_if(fault, [&](const auto& frame) { return is_outside(frame, allowed); });
  return 2 * static_cast<std::size_t>(told) >= fault.size();
}

Differences sum_of(const std::vector<Differences>& all) {
  Differences sum;
  for (const auto& one : all) {
    sum.values += one.values;
    sum.outside += one.outside;
    sum.squares += one.squares;
  }
  return sum;
}

bool are_apart(const OwnJumps& own) {
  const auto all = sum_of(own.selves);
  const bool by_size = std::isfinite(all.size()) && own.frames.size() >= kOwnApart * all.size();
  return by_size || own.frames.share() >= kOwnApart * all.share();
}

/// Without an engine's setting in which the reference differs from itself more than its frames do:
/// it computes something else there. All stay where frames are not told apart without it either.
OwnJumps without_strangers(const OwnJumps& own) {
  OwnJumps rest = own;
  std::erase_if(rest.selves, [&](const auto& self) { return self.size() > own.frames.size(); });
  return are_apart(rest) ? rest : own;
}

/// Whether no more than a share of `rate` differs from one of the other references.
bool equals_another(const FoundJumps& found, double rate) {
  return std::ranges::any_of(found.from_others, [&](const Differences& other) {
    return other.values == found.all.values && other.share() <= rate;
  });
}

bool has_size(const Tensor& value) {
  if (value.kind() != Tensor::Kind::kDense) return false;
  return is_float(value.dtype()) || bits_of(value.dtype()) == 8;
}

// Faults.

Tensor zeros_like(const Tensor& value) {
  auto all = value.clone();
  std::memset(all.data(), 0, all.bytes());
  return all;
}

/// Each element gets what the one `by` before it had.
Tensor shifted(const Tensor& value, std::size_t by) {
  auto all = value.clone();
  auto* begin = static_cast<char*>(all.data());
  const auto bytes = by % value.count() * (value.bytes() / value.count());
  std::rotate(begin, begin + (all.bytes() - bytes), begin + all.bytes());
  return all;
}

/// A fiftieth of the elements, from `begin` on, have what the first ones have.
Tensor with_wrong_block(const Tensor& value, std::size_t begin) {
  auto all = value.clone();
  const auto size = value.bytes() / value.count();
  const auto length = std::min(std::max<std::size_t>(value.count() / 50, 1), value.count() - begin);
  std::memmove(static_cast<char*>(all.data()) + begin * size, value.data(), length * size);
  return all;
}

std::size_t size_of_channel(const Tensor& value) {
  std::size_t size = 1;
  for (std::size_t axis = 2; axis < value.dims().size(); ++axis) {
    size *= static_cast<std::size_t>(value.dims()[axis]);
  }
  return size;
}

/// By kind.
std::vector<std::vector<Tensor>> faults_of(const Tensor& value, const Tensor& of_next_frame) {
  std::vector<std::vector<Tensor>> all{{of_next_frame}};
  const bool whole = value.kind() == Tensor::Kind::kDense && bits_of(value.dtype()) % 8 == 0;
  if (!whole || value.count() == 0) return all;
  const auto count = value.count();
  all.push_back({zeros_like(value)});
  all.push_back({shifted(value, 1)});
  all.push_back({shifted(value, size_of_channel(value))});
  // What the first values are may be near what one place has in all frames.
  auto& blocks = all.emplace_back();
  for (const std::size_t quarter : {1, 2, 3}) {
    blocks.push_back(with_wrong_block(value, quarter * count / 4));
  }
  return all;
}

/// All looks at the frames of a trial.
class Look {
 public:
  Look(std::span<const JudgedFrame> frames, std::span<const Allowed> allowed, Reference& reference,
       std::span<const MakeReference> others, const RunLimits& limits)
      : frames_(frames),
        allowed_(allowed),
        reference_(reference),
        limited_(reference, limits.changed) {
    for (const auto& make : others) {
      auto other = make();
      if (!other) continue;
      (*other)->limit_runs(limits.others);
      others_.push_back(*std::move(other));
    }
    endless_.resize(1 + others_.size());
    own_.resize(allowed.size());
    found_.resize(allowed.size());
    for (std::size_t i = 0; i < own_.size(); ++i) {
      own_[i].selves.resize(kLooks + others_.size());
      found_[i].from_others.resize(others_.size());
      found_[i].rate = allowed[i].rate;
    }
  }

  std::vector<std::optional<JumpVerdict>> verdicts() {
    for (const bool differing : {true, false}) {
      for (std::size_t f = 0; f < frames_.size(); ++f) {
        if (differs(frames_[f]) != differing) continue;
        look_at(f);
        if (endless_[0] || !may_jump()) break;
      }
      if (endless_[0] || !may_jump()) break;
    }
    std::vector<std::optional<JumpVerdict>> all(own_.size());
    for (std::size_t i = 0; i < own_.size(); ++i) {
      std::erase_if(own_[i].selves, [](const auto& self) { return self.values == 0; });
      if (found_[i].differing > 0) all[i] = judge_jumps(found_[i], own_[i]);
    }
    return all;
  }

 private:
  static bool differs(const JudgedFrame& frame) {
    return std::ranges::any_of(frame.found, [](const auto& one) { return one.mismatches > 0; });
  }

  /// Whether so many frames that differ showed jumps that the others matter.
  [[nodiscard]] bool may_jump() const {
    for (std::size_t i = 0; i < found_.size(); ++i) {
      const auto all = std::ranges::count_if(
          frames_, [&](const auto& frame) { return frame.found[i].mismatches > 0; });
      const auto most = kMostStrange * static_cast<double>(all);
      if (all > 0 && static_cast<double>(found_[i].strange) <= most) return true;
    }
    return false;
  }

  Result<std::vector<Tensor>> run(std::size_t way, Reference& reference,
                                  const frames::Frame& frame) {
    if (endless_[way]) return make_error(Code::kCancelled, "a run before did not end");
    auto outputs = reference.run(frame);
    endless_[way] = is_endless(outputs);
    return outputs;
  }

  void look_at(std::size_t f) {
    const auto& frame = frames_[f];
    const bool wide = std::ranges::all_of(allowed_, &Allowed::wide);
    jumped_.assign(own_.size(), false);
    for (std::uint64_t look = 0; look < kLooks; ++look) {
      const auto changed =
          with_last_bits_changed(frame.inputs, look + 1, {.units = kUnits, .wide = wide});
      if (!same_values(changed, frame.inputs)) note_self(look, frame, run(0, reference_, changed));
    }
    for (std::size_t other = 0; other < others_.size(); ++other) {
      const auto outputs = run(1 + other, *others_[other], frame.inputs);
      note_self(kLooks + other, frame, outputs);
      note_other(other, frame, outputs);
    }
    note_narrow(frame);
    if (endless_[0]) return;  // Nothing says whether the reference jumps in it.
    for (std::size_t i = 0; i < own_.size(); ++i) {
      const auto& found = frame.found[i];
      found_[i].all.add(found, has_size(frame.expected[i]));
      ++found_[i].frames;
      found_[i].differing += found.mismatches > 0 ? 1 : 0;
      found_[i].strange += found.mismatches > 0 && !jumped_[i] ? 1 : 0;
      plant(i, f);
    }
  }

  void note_self(std::size_t self, const JudgedFrame& frame,
                 const Result<std::vector<Tensor>>& outputs) {
    for (std::size_t i = 0; outputs && i < own_.size(); ++i) {
      const auto result = compare((*outputs)[i], frame.expected[i], allowed_[i].tolerance);
      own_[i].selves[self].add(result, has_size(frame.expected[i]));
      if (result.ok()) continue;
      jumped_[i] = true;
      Differences here;
      here.add(result, has_size(frame.expected[i]));
      own_[i].most_in_frame = std::max(own_[i].most_in_frame, here.share());
    }
  }

  void note_other(std::size_t other, const JudgedFrame& frame,
                  const Result<std::vector<Tensor>>& outputs) {
    for (std::size_t i = 0; outputs && i < found_.size(); ++i) {
      found_[i].from_others[other].add(
          compare(frame.actual[i], (*outputs)[i], allowed_[i].tolerance),
          has_size(frame.expected[i]));
    }
  }

  void note_narrow(const JudgedFrame& frame) {
    const auto inputs = rounded_to(DType::kBF16, frame.inputs);
    const bool same = same_values(inputs, frame.inputs);
    const auto outputs = run(0, reference_, inputs);
    for (std::size_t i = 0; outputs && i < own_.size(); ++i) {
      const auto& right = (*outputs)[i];
      const auto rounded = same ? rounded_to(DType::kBF16, right) : right;
      own_[i].narrow.add(compare(rounded, frame.expected[i], allowed_[i].tolerance),
                         has_size(frame.expected[i]));
    }
  }

  void plant(std::size_t output, std::size_t f) {
    const auto& value = frames_[f].expected[output];
    const auto& next = frames_[(f + 1) % frames_.size()].expected[output];
    const auto faults = faults_of(value, next);
    auto& own = own_[output];
    own.faults.resize(std::max(own.faults.size(), faults.size()));
    own.frames.add(compare(next, value, allowed_[output].tolerance), has_size(value));
    for (std::size_t kind = 0; kind < faults.size(); ++kind) {
      for (const auto& fault : faults[kind]) {
        if (same_values({fault}, {value})) continue;
        own.faults[kind].emplace_back().add(compare(fault, value, allowed_[output].tolerance),
                                            has_size(value));
      }
    }
  }

  std::span<const JudgedFrame> frames_;
  std::span<const Allowed> allowed_;
  Reference& reference_;
  const LimitedRuns limited_;
  std::vector<std::unique_ptr<Reference>> others_;
  std::vector<bool> endless_;      ///< Of the reference, then of others_: a run was ended.
  std::vector<OwnJumps> own_;      ///< By output,
  std::vector<FoundJumps> found_;  ///< as here,
  std::vector<bool> jumped_;       ///< and of one frame: whether a disturbed reference did.
};

}  // namespace

void Differences::add(const Comparison& found, bool has_size) {
  const bool comparable = found.problem.empty();
  const auto count = comparable ? found.count : std::max<std::size_t>(found.count, 1);
  const auto more = comparable ? found.mismatches : count;
  values += count;
  outside += more;
  if (more == 0) return;
  const bool sized = comparable && has_size;
  squares += sized ? found.squares : static_cast<double>(more);
  largest = std::max(largest, sized ? found.largest_error : kInfinity);
}

double Differences::share() const {
  return values == 0 ? 0 : static_cast<double>(outside) / static_cast<double>(values);
}

double Differences::size() const {
  return values == 0 ? 0 : std::sqrt(squares / static_cast<double>(values));
}

JumpVerdict judge_jumps(const FoundJumps& found, const OwnJumps& all) {
  const OwnJumps own = without_strangers(all);
  std::vector<double> shares;
  double largest = 0;
  for (const auto& self : own.selves) {
    shares.push_back(self.share());
    largest = std::max(largest, self.largest);
  }
  const double mean = mean_of(shares);
  const double most = shares.empty() ? 0 : *std::ranges::max_element(shares);
  const double furthest = kOwnMargin * largest;
  JumpVerdict verdict{Likeness::kNone, 0, furthest, mean, furthest, own.most_in_frame};
  verdict.share =
      std::min(std::max({kOwnMargin * mean, mean + 3 * deviation_of(shares), most}), kMostJumping);
  const bool strange =
      static_cast<double>(found.strange) > kMostStrange * static_cast<double>(found.differing);
  const auto differing = static_cast<double>(found.differing);
  const auto frames = static_cast<double>(found.frames);
  const bool all_alike = own.selves.size() == all.selves.size();
  if (all_alike && found.strange == 0 && differing <= kFewFrames * frames) {
    verdict.share = std::max(verdict.share, own.most_in_frame * differing / frames);
  }
  if (equals_another(found, found.rate)) {
    verdict.likeness = Likeness::kOwn;
    verdict.share = std::min(kLuck * most, 1.0);
    if (!equals_another(found, 0)) return verdict;
    // As often and as far as that one, also where it is a stranger and counts for nothing else.
    verdict.share = std::min(kLuck * std::max(most, found.all.share()), 1.0);
    verdict.size = verdict.most_size = std::max(furthest, found.all.largest);
    return verdict;
  }
  if (strange || is_outside(found.all, verdict)) return verdict;
  verdict.likeness = Likeness::kOpen;
  verdict.share = std::min({verdict.share, (mean + own.narrow.share()) / 2, kMostSure});
  verdict.size =
      (1 + kStepRounding) * std::clamp((largest + own.narrow.largest) / 2, largest, furthest);
  const bool tells =
      own.narrow.share() >= kOwnMargin * mean && are_apart(own) &&
      std::ranges::all_of(own.faults, [&](const auto& fault) { return is_told(fault, verdict); });
  if (tells && !is_outside(found.all, verdict)) verdict.likeness = Likeness::kOwn;
  return verdict;
}

std::vector<std::optional<JumpVerdict>> look_at_jumps(std::span<const JudgedFrame> frames,
                                                      std::span<const Allowed> allowed,
                                                      Reference& reference,
                                                      std::span<const MakeReference> others,
                                                      const RunLimits& limits) {
  return Look(frames, allowed, reference, others, limits).verdicts();
}

}  // namespace penstock::measure
