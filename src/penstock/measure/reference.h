// The outputs that a pipeline's must equal.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/frames/random.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/package.h"

namespace penstock::measure {

/// Computes a frame without a pipeline. One frame at a time, in order: each reads the states that
/// the one of its stream before it wrote.
class Reference {
 public:
  virtual ~Reference() = default;
  /// In the order of the plan's outputs. A frame that fails leaves the states as they are.
  virtual Result<std::vector<Tensor>> run(const frames::Frame& inputs) = 0;
  /// The next frames are of this stream, which has states of its own; at first they are of 0.
  virtual void choose_stream(std::uint64_t /*stream*/) {}
  /// The next frame of each stream reads the states' initial values; it is of stream 0.
  virtual Status begin_sequence() { return {}; }
  using Limit = std::optional<std::chrono::nanoseconds>;
  /// A frame that takes longer from now on fails with kCancelled, where its engine can end a run:
  /// for values that nobody gave, on which a loop may never end.
  virtual void limit_runs(Limit /*limit*/) {}
};

/// Of a frame that is to be measured: a run that takes longer is taken for endless.
inline constexpr std::chrono::seconds kLongestRun(300);

/// How long runs of values that nobody gave may last, on which a loop may never end.
struct RunLimits {
  Reference::Limit changed;  ///< Of frames that are changed, or random.
  Reference::Limit others;   ///< Of other references.
};

/// Limits the runs of a reference while it lives. Borrows it.
class LimitedRuns {
 public:
  LimitedRuns(Reference& reference, Reference::Limit limit) : reference_(reference) {
    reference_.limit_runs(limit);
  }
  ~LimitedRuns() { reference_.limit_runs({}); }
  LimitedRuns(const LimitedRuns&) = delete;
  LimitedRuns& operator=(const LimitedRuns&) = delete;

 private:
  Reference& reference_;
};

/// Whether a limit ended the run; the next ones are likely to end so, too.
inline bool is_endless(const Result<std::vector<Tensor>>& ran) {
  return !ran && ran.error().code == Code::kCancelled;
}

/// Makes another run that is right as well: the engine with other settings.
using MakeReference = std::function<Result<std::unique_ptr<Reference>>()>;

/// How the engine runs a reference.
struct ReferenceSettings {
  bool optimize = false;    ///< The graph.
  bool one_thread = false;  ///< Else one for each CPU; of one_at_a_time(): of its stage's device.
  /// Of stages: what passes from one to the next is changed in its last bits.
  bool change_between = false;
};

/// The whole model in ONNX Runtime, the file as it is; the package's states are handed on.
/// \error kInvalidArgument  its inputs or outputs are not those of the package.
Result<std::unique_ptr<Reference>> whole_reference(const std::filesystem::path& model,
                                                   const plan::Package& package,
                                                   const backend::Registry& backends,
                                                   const ReferenceSettings& settings);

/// The package's own stages, one after the other.
Result<std::unique_ptr<Reference>> stage_reference(const plan::Package& package,
                                                   const backend::Registry& backends,
                                                   const ReferenceSettings& settings);

/// Whether nothing but the stage itself can say what is right: other machines have a part of it.
bool is_own_witness(const plan::Stage& stage);

/// A pipeline of the package's stages without replicas that gets a frame when the last is out: for
/// functions and several networks, which no one model computes. Networks run in ONNX Runtime,
/// whatever the plan says, functions and what is_own_witness() as they are. `options` as for the
/// pipeline that is compared, of which engines' own are for that alone. \error as
/// Pipeline::start().
Result<std::unique_ptr<Reference>> one_at_a_time(const plan::Package& package,
                                                 const backend::Registry& backends,
                                                 const pipeline::Options& options,
                                                 const ReferenceSettings& settings);

}  // namespace penstock::measure
