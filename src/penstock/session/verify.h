// Whether a package computes what its model computes: penstock::verify().
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/frames/random.h"
#include "penstock/measure/verify.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/session/session.h"
#include "penstock/tensor/compare.h"

namespace penstock {

struct VerifyOptions {
  /// The whole model; empty: the file that the package was made from, where it is found unchanged
  /// (see find_model()), else the package's own stages one after the other.
  std::filesystem::path model;
  bool optimized = false;  ///< The reference is.
  Tolerance tolerance;
  std::vector<frames::Frame> given;  ///< Frames, in the order of the plan's inputs; else random.
  frames::RandomValues random;
  /// 0: as many as are given, to each of several streams; or 20 random ones, 4 of each stream at
  /// least; or what it takes for stages that take several frames in a call, with repeated bursts
  /// where those leave a model out.
  std::uint64_t frames = 0;
  std::function<bool()> stopped = [] { return false; };
  std::function<void(std::uint64_t judged, std::uint64_t of)> progress = [](std::uint64_t,
                                                                            std::uint64_t) {};
};

/// Runs frames through an opened package and judges each output; the pipeline is closed then.
/// Of a package with states and several streams, some streams take turns, each judged beside a
/// sequence of its own: see streams_in_turn().
/// A package with functions or several networks is compared with itself, without replicas and one
/// frame at a time, its networks in ONNX Runtime; `settings.warn` hears of stages that are compared
/// with what runs them themselves. Where the plan drops frames or has a deadline, the pipeline is
/// started anew without: see plan::keep_all_frames(). `settings`: those that the package was opened
/// with; their `warn` hears of another model than the package's, and of the reference's own
/// warnings.
/// \error kInvalidArgument  as frames::check_frames(); a model or `optimized` for a package that no
/// one model computes; and of the reference that cannot be made, or of frames that cannot.
Result<measure::VerifyReport> verify(Opened& opened, VerifyOptions options,
                                     const pipeline::Options& settings,
                                     const backend::Registry& backends);

}  // namespace penstock
