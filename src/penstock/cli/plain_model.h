// A model run by a backend directly, without a pipeline: the reference of `verify`, the other side
// of `bench`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/cli/inputs.h"
#include "penstock/plan/plan.h"

namespace penstock::cli {

/// One compiled model with its context and its outputs' buffers.
class PlainModel {
 public:
  static Result<PlainModel> create(backend::Backend& backend,
                                   const backend::CompileRequest& request);

  [[nodiscard]] std::span<const backend::Port> inputs() const { return executable_->inputs(); }
  [[nodiscard]] std::span<const backend::Port> outputs() const { return executable_->outputs(); }

  /// Runs `inputs` once, and gives every output whose shape follows from the inputs' a buffer that
  /// later runs write into; the others' are the engine's, anew for each run, so that nothing is
  /// copied.
  Status bind_outputs(std::span<const Tensor* const> inputs);
  /// One frame; `inputs` follow inputs().
  Status run(std::span<const Tensor* const> inputs);
  /// Of the last run; the next one overwrites them.
  [[nodiscard]] const std::vector<Tensor>& values() const { return *values_; }
  /// Moves the outputs of the last run out.
  std::vector<Tensor> take_values();

 private:
  std::unique_ptr<backend::Executable> executable_;
  std::unique_ptr<backend::Context> context_;
  std::unique_ptr<std::vector<Tensor>> values_;  // Where pointers_ point; moves do not move them.
  std::vector<Tensor*> pointers_;
  std::vector<std::size_t> unbound_;  // Outputs that bind_outputs() left to the engine.
};

/// For each input of the model, its position among the plan's inputs.
/// \error kInvalidArgument  the model has an input that the package has not: is it the same model?
Result<std::vector<std::size_t>> match_inputs(const PlainModel& model,
                                              const std::vector<plan::TensorInfo>& inputs);

}  // namespace penstock::cli
