// Gate: nothing is chosen whose outputs are not the reference's.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/graph/weight_store.h"
#include "penstock/measure/judge.h"
#include "penstock/measure/side.h"
#include "penstock/measure/verify.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/package.h"
#include "penstock/tensor/compare.h"
#include "penstock/tune/build.h"

namespace penstock::tune {

inline constexpr std::size_t kGateFrames = 4;
inline constexpr std::size_t kSequenceFrames = 16;  ///< Of networks whose errors add up in states.

/// The user's frames, first those that the gate looks at: which say the most. A sequence begins
/// later then; not where states grow, which frames in its middle count on.
measure::Ring judged_first(measure::Ring frames, const plan::Plan& plan);

/// The judge's reference is the whole model, the file as it is, in ONNX Runtime without
/// optimisation, for the first frames of a ring, which are a sequence.
class Gate {
 public:
  /// What it refers to outlives the gate.
  struct Setting {
    const std::filesystem::path& model;
    const plan::Package& package;  ///< Gives the order of inputs and outputs.
    const measure::Ring& ring;
    const backend::Registry& backends;
    bool optimized;  ///< Whether the optimised run may be asked, too: it takes no process along.
    Tolerance tolerance;
    /// Ctrl-C: then neither the gate nor a trial goes on; what is said is of the frames until then.
    std::function<bool()> stopped;
    /// There is no room for two models: references take turns, and what is wrong is not looked at
    /// again while it runs.
    bool one_at_a_time = false;
    const graph::WeightStore* weights = nullptr;  ///< Of the model; outlives the gate. Null: none.
    std::function<bool()> out_of_time = [] { return false; };  ///< For bursts to come once more.
    std::function<void()> on_long_run = nullptr;  ///< Told where a frame has not ended for long.
  };
  static Result<Gate> create(const Setting& setting);

  /// Runs the gate's frames through the pipeline, one after the other; where calls take several,
  /// then once more in bursts, so that each model for several runs; a warning names those that
  /// did not. \error a frame that failed.
  [[nodiscard]] Result<measure::VerifyReport> judge(pipeline::Pipeline& pipeline) const;
  [[nodiscard]] const measure::Judge& judge() const { return judge_; }

 private:
  Gate(measure::Ring inputs, measure::Judge judge, measure::MakeReference reference,
       std::vector<measure::MakeReference> others);
  void look_again(measure::Trial& trial) const;

  measure::Ring inputs_;
  measure::Judge judge_;
  measure::MakeReference reference_;  ///< For a second look at what is wrong.
  std::vector<measure::MakeReference> others_;
  bool one_at_a_time_ = false;
  std::function<bool()> stopped_, out_of_time_;
  std::function<void()> on_long_run_;
};

}  // namespace penstock::tune
