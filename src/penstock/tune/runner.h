// Runner: a plan that runs, and what makes plans run.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/graph/graph.h"
#include "penstock/measure/judge.h"
#include "penstock/measure/side.h"
#include "penstock/partition/split.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/pipeline/spans.h"
#include "penstock/plan/package.h"
#include "penstock/tune/build.h"
#include "penstock/tune/gate.h"

namespace penstock::tune {

/// A plan that is proposed.
struct Contestant {
  std::string name;  ///< "openvino on each core"
  partition::ChosenStages split;
  bool as_is = false;  ///< A split of the file in its own form, not of its clean import.
  partition::Batches batches = {};  ///< By the names of its stages; none: one frame in each call.
};

/// A plan that runs. Ends with its destruction.
class Runner {
 public:
  virtual ~Runner() = default;
  /// The gate's frames, as Gate::judge() runs them. \error a frame that failed
  virtual Result<measure::VerifyReport> judge() = 0;
  /// The frames of another gate. \error as judge()
  virtual Result<measure::VerifyReport> judge_by(const Gate& /*gate*/) { return judge(); }
  /// Runs frames for a while, so many at once or as many as the plan takes. Borrows the runner.
  virtual std::unique_ptr<measure::Side> side(int in_flight) = 0;
  /// Of computing one frame, the median, for each stage; of a call of several, a frame's share.
  [[nodiscard]] virtual std::vector<double> stage_seconds() const = 0;
  /// Which worker had which of the last frames when; none where that is not kept.
  [[nodiscard]] virtual Result<std::vector<pipeline::WorkerSpans>> spans() const {
    return std::vector<pipeline::WorkerSpans>();
  }
};

/// Makes plans run: of pipelines, or in tests of invented numbers.
class Runners {
 public:
  virtual ~Runners() = default;
  /// \error why there is no such plan
  virtual Result<plan::Package> pack(const Contestant& contestant) = 0;
  /// \error kFailedPrecondition, kResourceExhausted  it cannot stand beside what runs already
  virtual Result<std::unique_ptr<Runner>> start(const plan::Package& package) = 0;
};

/// Pipelines in this process. Borrows what it is made with, as long as runners live.
class Pipelines final : public Runners {
 public:
  struct Setting {
    /// The graph that a contestant is a split of: the file as it is, or its clean import.
    std::function<Result<const graph::Graph*>(bool as_is)> graph;
    const Options& options;
    const backend::Registry& backends;
    const measure::Ring& ring;
    const Gate& gate;
    std::chrono::duration<double> max_run;        ///< A call that takes longer hangs.
    pipeline::Options run = {};                   ///< What plans are started with.
    const graph::WeightStore* weights = nullptr;  ///< Of the graphs; null: none.
  };
  explicit Pipelines(Setting setting) : setting_(std::move(setting)) {}

  Result<plan::Package> pack(const Contestant& contestant) override;
  Result<std::unique_ptr<Runner>> start(const plan::Package& package) override;

 private:
  Setting setting_;
};

/// What a verdict depends on beside the plan: the tolerance, the engine that tells what is right,
/// the frames.
std::string verdict_key(const Options& options, const backend::Registry& backends,
                        const measure::Ring& ring);

}  // namespace penstock::tune
