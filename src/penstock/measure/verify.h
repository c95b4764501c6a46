// Frames through a pipeline, each judged by the reference.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/frames/random.h"
#include "penstock/measure/judge.h"
#include "penstock/measure/reference.h"
#include "penstock/pipeline/pipeline.h"

namespace penstock::measure {

struct Verification {
  pipeline::Pipeline& pipeline;  ///< Nothing in flight, before and behind it.
  Reference& reference;
  const Judge& judge;
  /// Calls Trial::look_again(), where the judge is measured and nothing has a state.
  std::function<void(Trial&)> look_again;
  std::function<Result<frames::Frame>(std::uint64_t number)> frame;
  std::uint64_t frames = 0;
  std::uint64_t streams = 1;  ///< They take turns, frame by frame.
  /// How many frames of a stream follow each other; the next begins with the states' initial
  /// values. 0: all do.
  std::uint64_t sequence = 0;
  /// How many frames are pushed before the first of them is popped, in turn; then as many as fit.
  std::vector<std::size_t> bursts;
  /// How often they come again at most, each time with one frame more in each, while that may run a
  /// model for several frames that did not run.
  std::size_t repeats = 0;
  /// Asked before each of their frames: ends these alone.
  std::function<bool()> out_of_time = [] { return false; };
  const std::vector<plan::TensorInfo>& inputs;
  std::vector<std::string> bound;  ///< Names of the inputs that have one value for good.
  bool random = true;              ///< Nobody gave the frames: then they may be at fault.
  bool ends_at_failure = false;  ///< By the error of the first frame of the pipeline's that fails.
  std::function<bool()> stopped = [] { return false; };
  /// Told where no frame has come out for so long; then the pipeline has until kLongestRun. Null:
  /// it has the patience of a pop.
  std::function<void()> on_long_run = nullptr;
  std::chrono::nanoseconds long_run = kLongestRun;
  std::function<void(std::uint64_t judged)> progress = [](std::uint64_t) {};
};

struct VerifyReport {
  std::uint64_t frames = 0;
  std::uint64_t dropped = 0;  ///< By a function, in the reference too.
  Verdict verdict;
  std::vector<std::string> failures;  ///< The first frames that failed.
  std::uint64_t failed = 0;           ///< Frames.
  std::uint64_t unjudged = 0;         ///< Random frames on which the reference itself fails.
  std::string why_unjudged;           ///< What the first of them says, and what to give instead.
  bool interrupted = false;           ///< Before all frames were judged.
  bool cut_short = false;             ///< Out of time, before all bursts came that might tell more.
  std::string reference;              ///< What it was.
  std::string other_sizes;            ///< "ids=1x5": that were tried too; empty: none.
  std::vector<std::string> warnings;

  /// It was interrupted before a frame was judged: no output's own finding says anything.
  [[nodiscard]] bool compared_none() const { return interrupted && frames == 0; }
  /// kWrong also where a frame failed, kInconclusive where one could not be judged, or none was.
  [[nodiscard]] Finding finding() const;
  /// Failed frames, and those in which a wrong output differs: the first five.
  [[nodiscard]] std::vector<std::string> problems() const;
  [[nodiscard]] std::uint64_t problem_count() const;
};

/// Keeps the pipeline full, and judges what comes out in order; frames of repeated bursts come on
/// top of those that are asked for. \error of a frame that cannot be made or pushed, or that fails
/// where that ends it.
Result<VerifyReport> verify(const Verification& verification);

/// What `penstock verify --json` prints, but for the package.
std::string to_json(const VerifyReport& report);

}  // namespace penstock::measure
