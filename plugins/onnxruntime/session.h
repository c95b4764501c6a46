// Session: a model compiled by ONNX Runtime, and the contexts that run it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "empty.h"
#include "engine.h"
#include "penstock/backend/backend.h"

namespace penstock::ort {

/// What contexts, and tensors that ONNX Runtime allocated, keep alive.
struct Model {
  std::shared_ptr<const Engine> engine;
  Handle<OrtSession> session;
  std::vector<backend::Port> inputs;
  std::vector<backend::Port> outputs;
  std::vector<const char*> input_names;   ///< Of `inputs`.
  std::vector<const char*> output_names;  ///< Of `outputs`.
  Filled filled;
};

/// Builds the session with the request's settings; leaves the caller's floating-point mode as it
/// was. Errors as Backend::compile().
Result<std::shared_ptr<const Model>> compile_model(std::shared_ptr<const Engine> engine,
                                                   const backend::CompileRequest& request);

/// The value of a model without inputs and with one output, as it is: nothing converted.
Result<Handle<OrtValue>> evaluate_constant(const Engine& engine, const std::string& model);

Result<std::unique_ptr<backend::Context>> create_context(std::shared_ptr<const Model> model);

}  // namespace penstock::ort
