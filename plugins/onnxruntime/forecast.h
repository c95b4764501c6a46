// Shapes of a run's outputs known before the run, so that the caller's buffers can be bound.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "penstock/backend/backend.h"

namespace penstock::ort {

/// One context's. One thread.
class ShapeForecast {
 public:
  ShapeForecast(std::span<const backend::Port> inputs, std::span<const backend::Port> outputs);

  /// Before each run.
  void begin(std::span<const Tensor* const> inputs);

  /// Output `i`'s dimensions in this run; null where only the run can tell. Valid until learn().
  /// \pre begin(inputs), the inputs match their ports.
  const std::vector<std::int64_t>* dims(std::size_t i, std::span<const Tensor* const> inputs);

  /// What output `i` turned out to be. `refused`: the engine did not take a buffer of the forecast.
  void learn(std::size_t i, const std::vector<std::int64_t>& dims, bool refused);

  /// After a run that succeeded.
  void end() { learned_ = true; }

 private:
  enum class Source {
    kFixed,   ///< Every dimension is in the model.
    kInputs,  ///< Open dimensions carry the symbol of an input's dimension.
    kLast,    ///< As it was the last time, while the inputs' shapes stay the same.
    kEngine,  ///< Known after the run only.
  };
  struct Axis {
    std::int64_t size = 0;
    std::size_t input = 0;  ///< Where `size` is Dim::kOpen: this input's
    std::size_t axis = 0;   ///< dimension.
  };
  struct Output {
    Source source = Source::kEngine;
    std::vector<Axis> axes;
    std::vector<std::int64_t> dims;  ///< Foreseen for this run; kLast: of the last one.
  };
  static Output read(const Type& type, std::span<const backend::Port> inputs);

  std::vector<Output> outputs_;
  std::vector<std::vector<std::int64_t>> last_shapes_;  // Of the inputs, where an output learns.
  bool learned_ = false;      // The last run succeeded: its shapes belong to last_shapes_.
  bool same_shapes_ = false;  // ... and this one's inputs are of the same.
};

}  // namespace penstock::ort
