// The judge: whether outputs are those of a reference, as far as that can be told.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/frames/random.h"
#include "penstock/measure/hidden_rows.h"
#include "penstock/measure/jumps.h"
#include "penstock/measure/reference.h"
#include "penstock/tensor/compare.h"
#include "penstock/tensor/tensor.h"

namespace penstock::measure {

/// What is allowed in one output, and what it was made of.
///
/// A value within `tolerance` is right. The floor of it is eight times the largest error that the
/// reference makes itself where its inputs change in the last bits and where its engine's settings
/// change, and at most half of what bf16 gives; and no less than what its last function rounds,
/// where that is known, nor, where the network computes in f16, than three times what that gives
/// (inputs in f16, or last bits of f16 changed on the way): an engine may keep more digits between
/// two nodes. A larger difference of the reference from
/// itself is no rounding: a value jumped, as an integer, a NaN or an index does. How often that
/// happens is a rate, and so many values may lie outside, 1 % at most: here and there, and no
/// further than jumps go. Where they are a whole frame's, or lie further, the second look decides.
struct Allowance {
  std::string output;
  Tolerance tolerance;  ///< With the floor.
  double rate = 0;      ///< Share of the values that may lie outside the tolerance.
  bool measured = false;
  double rounding = 0;       ///< The reference's largest error against itself that is no jump.
  double bf16 = 0;           ///< Its largest error with inputs, or outputs, rounded to bf16.
  double own_rate = 0;       ///< Share of the values in which it jumps,
  double jump = 0;           ///< and how far at most; infinite: a NaN, an integer, a text.
  double last_rounding = 0;  ///< As KnownOutput has it.
  std::string drawn;         ///< As KnownOutput has it: then no verdict is possible.
  double half = 0;           ///< Its largest error with inputs, or it, in f16, where that counts.
  bool constant = false;     ///< Each frame has the same, and no other frame's can be wrong.
  bool discrete = true;      ///< Values are the same or jump: rounding alone changes none.
  bool alone = false;        ///< All frames were the same, so that none is a wrong one.
  bool empty = false;        ///< ... for they hold no elements.
  bool compared = false;     ///< Two different frames were there.
  bool told_apart = false;   ///< Their outputs differ by ten times what is allowed, at least.
  bool nan = false;          ///< All values of the reference's are NaN.
  bool wide = false;         ///< As KnownOutput has it.
  bool exact = false;        ///< As KnownOutput has it, or no two values are over a step apart.
  HiddenRows hidden;         ///< Whose values could be others as small.
};

/// "1e-3 |e| + 1e-5 max|e| + 2e-6: 8 times what rounding ..."
std::string explain(const Allowance& allowance);

enum class Finding {
  kRight,
  kInconclusive,  ///< What was seen is right, or might be, but wrong outputs could look the same.
  kWrong,
};
std::string_view to_string(Finding finding);  ///< "right", "inconclusive", "wrong"

/// What all frames showed of one output.
struct OutputVerdict {
  Allowance allowed;
  Finding finding = Finding::kRight;
  std::string reason;  ///< Why it is not right: one sentence; empty where it is.
  std::size_t values = 0;
  std::size_t mismatches = 0;  ///< Values outside the tolerance.
  std::size_t frames_differing = 0;
  double largest_error = 0;
  double worst_ratio = 0;  ///< Of the tolerance.
  /// Share of a frame's values outside, where it is largest; 0 where that is less than a tenth.
  double whole_frame = 0;
  double scale = 1;  ///< Of the random frames that told: how many times as large as usual.
  /// Where the second look was asked: see Trial::look_again().
  std::optional<JumpVerdict> jumps = {};
  /// The first frames that differ: "frame 3: output 'y': 2 of 1000 values outside ...".
  std::vector<std::string> problems;
};

/// As of its allowance; and what the second look allows where it was asked.
std::string explain(const OutputVerdict& output);

struct Verdict {
  std::vector<OutputVerdict> outputs;

  [[nodiscard]] Finding finding() const;  ///< The worst of them.
  /// The reason of the first output of which that was found; empty: of none.
  [[nodiscard]] std::string reason(Finding finding) const;
  /// Why it is not sure, by the names of the outputs that are inconclusive.
  [[nodiscard]] std::map<std::string, std::string> doubts() const;
};

/// What the network says of an output.
struct KnownOutput {
  /// What its last function rounds in any engine, as a sigmoid near 0 does: the floor is no less.
  double last_rounding = 0;
  bool constant = false;  ///< It depends on no input, or on shapes alone.
  /// What draws random numbers that it depends on: "node 'r' (RandomNormal)"; empty: nothing does.
  std::string drawn;
  bool half = false;  ///< It depends on what is computed in, or rounded to, f16.
  /// It depends on nothing of f16 or bf16 but what is stored so: inputs of these types are exact
  /// where that is so of all outputs.
  bool wide = false;
  /// Integers of eight bits that are rounded from no number, as classes and masks: a step is wrong.
  bool exact = false;
};

/// What is allowed, measured once; trials of any number of pipelines borrow it. Immutable.
class Judge {
 public:
  struct Setting {
    std::vector<std::string> outputs;
    Tolerance tolerance;
    /// That the network is tried with, a sequence: four are enough where it has no states.
    std::span<const frames::Frame> frames;
    std::vector<MakeReference> others = {};  ///< One that cannot be made, or fails, is left out.
    std::vector<KnownOutput> known = {};     ///< Of each output; or empty. See known_outputs().
    std::function<bool()> stopped = [] { return false; };  ///< Nothing more is measured then.
    /// Random ones, where `frames` are all the same; one that fails is left out.
    std::span<const frames::Frame> further = {};
    /// Of a frame as it is; what takes longer is an error.
    Reference::Limit longest_run = {};
    /// With what is computed in f16 changed in the last bit; asked where KnownOutput::half. Or
    /// null.
    MakeReference half = nullptr;
  };
  /// Runs each frame five times in the reference, and once in each of the others.
  /// \error of the reference, on the frames as they are; kDeadlineExceeded: past `longest_run`.
  static Result<Judge> create(const Setting& setting, Reference& reference);
  /// By the tolerance alone: where the reference can be asked each frame only once, in turn.
  static Judge unmeasured(const std::vector<std::string>& outputs, const Tolerance& tolerance);

  [[nodiscard]] bool is_measured() const {
    return !allowances_.empty() && allowances_.front().measured;
  }
  [[nodiscard]] const std::vector<Allowance>& allowances() const { return allowances_; }
  /// The reference's outputs of the setting's frames; of unmeasured(): none.
  [[nodiscard]] const std::vector<std::vector<Tensor>>& expected() const { return expected_; }
  /// By how much the reference's own rounding leaves the tolerance without its floor; 1 to 8.
  [[nodiscard]] double factor() const { return factor_; }
  /// By the longest run of the frames as they are; of unmeasured(): none.
  [[nodiscard]] const RunLimits& limits() const { return limits_; }

 private:
  Status run_usual(const Setting& setting, Reference& reference);
  void take_known(const std::vector<KnownOutput>& known);
  Status run_in_bf16(const Setting& setting, Reference& reference);
  Status run_in_half(const Setting& setting, Reference& reference);
  Status run_changed(const Setting& setting, Reference& reference);
  void note_bf16(std::size_t frame, const std::vector<Tensor>& rounded);
  void note_half(std::size_t frame, const std::vector<Tensor>& rounded,
                 const std::vector<KnownOutput>& known);
  void note_run(std::size_t way, std::size_t frame, const std::vector<Tensor>& outputs);
  void run_others(const Setting& setting);
  void conclude();
  void tell_apart(const Setting& setting, Reference& reference);

  /// Without what is measured.
  [[nodiscard]] Tolerance base_of(std::size_t output) const;

  struct Count {
    std::size_t values = 0, outside = 0;
    [[nodiscard]] double share() const {
      return values == 0 ? 0 : static_cast<double>(outside) / static_cast<double>(values);
    }
  };
  Tolerance base_;
  std::vector<Allowance> allowances_;
  std::vector<std::vector<Tensor>> expected_;
  std::vector<std::vector<Count>> own_;  ///< Jumps by output; by change of bits, then by other.
  std::vector<Count> bf16_;              ///< Outside the tolerance by output.
  double factor_ = 1;
  RunLimits limits_;
};

/// One pipeline before the judge. Borrows it.
class Trial {
 public:
  explicit Trial(const Judge& judge);

  /// One frame, in order; its number is for messages. `actual` and `expected` follow the judge's
  /// outputs.
  void add(std::uint64_t number, const frames::Frame& inputs, std::span<const Tensor* const> actual,
           const std::vector<Tensor>& expected);
  [[nodiscard]] Verdict verdict() const;

  /// Whether more values lie outside than the first look allows, or such as look like no jumps.
  [[nodiscard]] bool needs_second_look() const;
  /// Then: runs the first frames, and the first that differ, in the reference again, disturbed in
  /// many ways, and compares how often values jump there, and how far. See judge_jumps().
  /// \pre no states.
  void look_again(Reference& reference, std::span<const MakeReference> others);

 private:
  struct Seen {
    frames::Frame inputs;
    std::vector<Tensor> expected;
  };
  RunLimits limits_;
  std::vector<OutputVerdict> outputs_;
  std::vector<Seen> seen_;         ///< The first frame and the last.
  std::vector<JudgedFrame> kept_;  ///< The first frames, and the first further ones that differ.
  std::size_t kept_differing_ = 0;
  std::size_t kept_bytes_ = 0;
};

}  // namespace penstock::measure
