// What every run of verify() shares: the pipeline, what it is compared with, and the frames.
#pragma once

#include <cstdint>
#include <functional>

#include "penstock/base/result.h"
#include "penstock/measure/judge.h"
#include "penstock/measure/reference.h"
#include "penstock/measure/verify.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/package.h"
#include "penstock/session/references.h"
#include "penstock/session/verify.h"

namespace penstock {

/// The values of frames are `options`', the sizes of random ones those of `package`'s inputs. What
/// it refers to outlives it; `pipeline` and `reference` are one thread's.
struct VerifyRun {
  pipeline::Pipeline& pipeline;
  const plan::Package& package;
  const VerifyOptions& options;
  const References& references;
  measure::Reference& reference;
  std::function<void()> on_long_run;  ///< As measure::Verification has it.
};

/// Measured, without states on frames that the reference takes; or by the tolerance alone where it
/// fails on all, which judge_frames() then tells frame by frame.
/// \error kInvalidArgument  there are no random values for an input: names it.
Result<measure::Judge> make_judge(const VerifyRun& of);

/// By the tolerance alone.
measure::Judge unmeasured_judge(const VerifyOptions& options, const plan::Plan& plan);

/// Runs so many frames and judges what comes out; `repeats` as measure::Verification has it. \error
/// as measure::verify()
Result<measure::VerifyReport> judge_frames(const VerifyRun& of, const measure::Judge& judge,
                                           std::uint64_t frames, std::size_t repeats = 0);

}  // namespace penstock
