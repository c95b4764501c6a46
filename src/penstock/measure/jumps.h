// Whether an output differs as the reference itself does, where its values jump.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/frames/random.h"
#include "penstock/measure/reference.h"
#include "penstock/tensor/compare.h"
#include "penstock/tensor/tensor.h"

namespace penstock::measure {

/// By how much one output differs, over one frame or several.
struct Differences {
  std::size_t values = 0;
  std::size_t outside = 0;  ///< The tolerance.
  double squares = 0;       ///< Sum of the squared errors of those.
  double largest = 0;       ///< Error; infinite for what has no size: a NaN, an index, a text.

  void add(const Comparison& found, bool has_size);
  [[nodiscard]] double share() const;  ///< Of the values that lie outside.
  [[nodiscard]] double size() const;   ///< Root of the mean squared error.
};

/// What the reference shows of one output on a trial's frames.
struct OwnJumps {
  /// One for each way of disturbing it: its inputs or quantisation steps changed in the last bits,
  /// its engine's settings.
  std::vector<Differences> selves;
  double most_in_frame =
      0;               ///< The largest share of one frame's values in which one of them jumps.
  Differences narrow;  ///< Of inputs rounded to bf16; where that changes none, of outputs.
  Differences frames;  ///< Of each frame's output from the next one's.
  /// Of faults planted in the right outputs, by kind; of each, by frame and, of a wrong block, by
  /// place. Where one changes nothing it is none.
  std::vector<std::vector<Differences>> faults;
};

/// What a pipeline shows of it on the same frames.
struct FoundJumps {
  Differences all;
  std::size_t frames = 0;
  std::size_t differing = 0;  ///< Of these, those that have values outside.
  std::size_t strange = 0;    ///< Of these, those in which no disturbed reference has.
  /// From each of the other references, which are right as well.
  std::vector<Differences> from_others = {};
  double rate = 0;  ///< Of the values that may lie outside one of those.
};

enum class Likeness {
  kNone,  ///< More often than the reference differs from itself, further, or in other frames.
  kOpen,  ///< Perhaps as it does.
  kOwn,   ///< As it does, and no known fault would look so.
};

struct JumpVerdict {
  Likeness likeness = Likeness::kNone;
  double share = 0;          ///< Of the values that may jump,
  double size = 0;           ///< and how far.
  double own_share = 0;      ///< Of a disturbed reference's values that do, on average.
  double most_size = 0;      ///< What jumps further is no jump; up to there it is open.
  double most_in_frame = 0;  ///< As OwnJumps has it.
};

/// Compares how often values jump and how far. Allowed are twice what a disturbed reference shows
/// on average, or three deviations more, or what one of them shows, or where an eighth of the
/// frames differs at most, what it shows in so many; each at most twice as far; for kOwn at most
/// half of the values, and nearer to the reference than to bf16 both in how many jump and in how
/// far. kOwn needs that the same limits refuse bf16, frames that change places, zeros, shifted
/// values and one wrong block, each in half of the places where it is planted, and that frames
/// differ ten times as much as the reference from itself. What equals one of the other references
/// is kOwn: an optimised run of quantised nodes may round all frames otherwise. A way in which the
/// reference differs from itself more than its frames do counts for nothing.
JumpVerdict judge_jumps(const FoundJumps& found, const OwnJumps& all);

/// One frame of a trial.
struct JudgedFrame {
  frames::Frame inputs;
  std::vector<Tensor> expected;   ///< By output, as all else.
  std::vector<Tensor> actual;     ///< The pipeline's,
  std::vector<Comparison> found;  ///< and what they differ by.
};

/// What the first look allows in one output.
struct Allowed {
  Tolerance tolerance;
  double rate = 0;    ///< Of the values that may lie outside.
  bool wide = false;  ///< As KnownOutput has it.
};

/// Asks a reference without states, disturbed in many ways, for all frames, and judges each output
/// that differs; none: it does not. Runs each frame 9 times in the reference, and once in each of
/// the others; fewer where most frames that differ show no jump, and none any more in one of which
/// a run was ended by its limit.
std::vector<std::optional<JumpVerdict>> look_at_jumps(std::span<const JudgedFrame> frames,
                                                      std::span<const Allowed> allowed,
                                                      Reference& reference,
                                                      std::span<const MakeReference> others,
                                                      const RunLimits& limits);

}  // namespace penstock::measure
