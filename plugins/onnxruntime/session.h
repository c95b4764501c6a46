// Session: a model compiled by ONNX Runtime, and the contexts that run it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine.h"
#include "penstock/backend/backend.h"

namespace penstock::ort {

/// How the shape of an output can be known before the run, so that the caller's buffer is bound.
struct OutputShape {
  enum class Source {
    kFixed,   ///< Every dimension is in the model.
    kInputs,  ///< Open dimensions carry the symbol of an input's dimension.
    kLast,    ///< As it was the last time, while the inputs' shapes stay the same.
    kEngine,  ///< Known after the run only: ONNX Runtime allocates.
  };
  struct Axis {
    std::int64_t size = 0;
    std::size_t input = 0;  ///< Where `size` is Dim::kOpen: this input's
    std::size_t axis = 0;   ///< dimension.
  };
  Source source = Source::kEngine;
  std::vector<Axis> axes;
};

/// What contexts, and tensors that ONNX Runtime allocated, keep alive.
struct Model {
  std::shared_ptr<const Engine> engine;
  Handle<OrtSession> session;
  std::vector<backend::Port> inputs;
  std::vector<backend::Port> outputs;
  std::vector<const char*> input_names;   ///< Of `inputs`.
  std::vector<const char*> output_names;  ///< Of `outputs`.
  std::vector<OutputShape> output_shapes;
};

/// Builds the session with the request's settings; leaves the caller's floating-point mode as it
/// was. Errors as Backend::compile().
Result<std::shared_ptr<const Model>> compile_model(std::shared_ptr<const Engine> engine,
                                                   const backend::CompileRequest& request);

/// The value of a model without inputs and with one output, as it is: nothing converted.
Result<Handle<OrtValue>> evaluate_constant(const Engine& engine, const std::string& model);

Result<std::unique_ptr<backend::Context>> create_context(std::shared_ptr<const Model> model);

}  // namespace penstock::ort
