// A model run by a backend directly, without a pipeline.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "penstock/backend/backend.h"
#include "penstock/base/result.h"

namespace penstock::backend {

/// One compiled model with its context and its outputs' buffers.
class PlainModel {
 public:
  static Result<PlainModel> create(Backend& backend, const CompileRequest& request);
  /// Another context of a model that is compiled already.
  static Result<PlainModel> create(std::shared_ptr<Executable> executable);

  [[nodiscard]] std::span<const Port> inputs() const { return executable_->inputs(); }
  [[nodiscard]] std::span<const Port> outputs() const { return executable_->outputs(); }

  /// Runs the first of the frames that will be run, each as run() takes it. Every output whose
  /// shape follows from the inputs', which have the same in all frames, gets a buffer that later
  /// runs write into; the others' are the engine's, anew for each run, so that nothing is copied.
  /// \pre  `frames` is not empty
  Status bind_outputs(std::span<const std::vector<const Tensor*>> frames);
  /// One frame; `inputs` follow inputs().
  Status run(std::span<const Tensor* const> inputs);
  /// One frame, ended after so long where the engine can end a run. \error kCancelled
  Status run(std::span<const Tensor* const> inputs, std::chrono::nanoseconds limit);
  /// run() in two steps. Between them the inputs must live, and nothing else be called.
  Status start(std::span<const Tensor* const> inputs);
  Status wait() { return context_->wait(kNoDeadline); }
  /// Of the last run; the next one overwrites them.
  [[nodiscard]] const std::vector<Tensor>& values() const { return *values_; }
  /// Moves the outputs of the last run out.
  std::vector<Tensor> take_values();

 private:
  std::shared_ptr<Executable> executable_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<std::vector<Tensor>> values_;  // Where pointers_ point; moves do not move them.
  std::vector<Tensor*> pointers_;
  std::vector<std::size_t> unbound_;  // Outputs that bind_outputs() left to the engine.
};

}  // namespace penstock::backend
