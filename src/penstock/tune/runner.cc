// Packs contestants and runs them as pipelines with a limit per call and kept spans.
#include "penstock/tune/runner.h"

#include <algorithm>
#include <utility>

#include "penstock/pipeline/drift.h"
#include "penstock/plan/stream_options.h"
#include "penstock/session/session.h"

namespace penstock::tune {
namespace {

class PipelineRunner final : public Runner {
 public:
  PipelineRunner(std::unique_ptr<pipeline::Pipeline> pipeline, const measure::Ring& ring,
                 const Gate& gate)
      : pipeline_(std::move(pipeline)), ring_(ring), gate_(gate) {}

  Result<measure::VerifyReport> judge() override { return gate_.judge(*pipeline_); }
  Result<measure::VerifyReport> judge_by(const Gate& gate) override {
    return gate.judge(*pipeline_);
  }

  std::unique_ptr<measure::Side> side(int in_flight) override {
    return measure::pipeline_side(*pipeline_, ring_,
                                  std::min(in_flight, pipeline_->in_flight_limit()));
  }

  [[nodiscard]] std::vector<double> stage_seconds() const override {
    std::vector<double> seconds;
    for (const auto& stage : pipeline_->stats().stages) {
      const double share = stage.calls.size() > 1 ? pipeline::share_of_frame(stage.calls) : 1;
      seconds.push_back(stage.compute_infer.p50_ns * share / 1e9);
    }
    return seconds;
  }

  [[nodiscard]] Result<std::vector<pipeline::WorkerSpans>> spans() const override {
    return pipeline_->spans();
  }

 private:
  std::unique_ptr<pipeline::Pipeline> pipeline_;
  const measure::Ring& ring_;
  const Gate& gate_;
};

}  // namespace

Result<plan::Package> Pipelines::pack(const Contestant& contestant) {
  PENSTOCK_TRY(const auto* graph, setting_.graph(contestant.as_is));
  partition::SplitOptions split{.by = contestant.split};
  split.custom_ops = setting_.options.custom_ops;
  split.weights = setting_.weights;
  split.batches = contestant.batches;
  split.frames = &setting_.ring;
  return pack_model(*graph, split, setting_.backends, setting_.options.states);
}

Result<std::unique_ptr<Runner>> Pipelines::start(const plan::Package& package) {
  plan::Plan bounded = package.plan;  // The limit is no part of what is packed.
  plan::apply({.max_run = std::chrono::duration_cast<std::chrono::microseconds>(setting_.max_run)},
              bounded);
  auto traced = setting_.run;
  traced.trace = true;  // A few nanoseconds a frame, of all plans alike.
  PENSTOCK_TRY(auto pipeline,
               pipeline::Pipeline::start(bounded, package.folder, setting_.backends, traced));
  return std::unique_ptr<Runner>(
      std::make_unique<PipelineRunner>(std::move(pipeline), setting_.ring, setting_.gate));
}

std::string verdict_key(const Options& options, const backend::Registry& backends,
                        const measure::Ring& ring) {
  std::string reference;
  if (const auto found = backends.find("onnxruntime")) {
    reference = "onnxruntime " + (*found)->describe().engine_version;
  }
  return concat("within ", options.tolerance.value_or(Tolerance().relative),
                " and the rounding of ", reference, ", frames ", frames::digest_of(ring),
                ", penstock ", version());
}

}  // namespace penstock::tune
