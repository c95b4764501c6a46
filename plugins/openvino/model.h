// Model: an ONNX model read by OpenVINO, compiled as often as it is run at the same time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine.h"
#include "penstock/backend/backend.h"
#include "workers.h"

namespace penstock::openvino {

using PortHandle = Handle<ov_output_const_port_t>;

/// One compiled model. Runs of one thread's settings take turns on it: each context has its own,
/// but for a model whose requests share it.
struct Compiled {
  Handle<ov_compiled_model_t> model;
  std::vector<PortHandle> inputs;  ///< In the file's order; null: OpenVINO has no use for it.
  std::vector<PortHandle> outputs;
  std::unique_ptr<Watch> threads;  ///< Null where OpenVINO places its threads itself.
};

/// Immutable once made. What contexts keep alive.
struct Model {
  std::shared_ptr<const Engine> engine;
  Handle<ov_model_t> source;
  std::vector<std::pair<std::string, std::string>> properties;
  std::vector<backend::Port> inputs;
  std::vector<backend::Port> outputs;
  std::vector<bool> open_outputs;  ///< OpenVINO does not know the shape before the run; else
  std::vector<std::vector<std::int64_t>> output_dims;  ///< it is this.
  bool any_open_output = false;
  int most_threads = 0;      ///< That a compilation may start.
  bool own_threads = false;  ///< A performance hint: OpenVINO's queue and threads run it.
  /// Requests of one compilation run at the same time. Where shapes are open, OpenVINO (2026.4)
  /// reads the buffers of the one that runs while another is given its tensors: that ends the
  /// process.
  bool requests_share = false;
  int recommended_contexts = 1;
  std::shared_ptr<WorkerPool> pool;       ///< Of a stage of several CPUs, else null.
  std::shared_ptr<const Compiled> first;  ///< What compile_model() made.
};

/// Those that this machine's processor computes in, as OpenVINO says.
std::vector<backend::Precision> lower_precisions(const Engine& engine);

/// Reads and compiles on the calling thread; leaves its floating-point mode as it was. Errors as
/// Backend::compile().
Result<std::shared_ptr<const Model>> compile_model(std::shared_ptr<const Engine> engine,
                                                   const backend::CompileRequest& request,
                                                   std::shared_ptr<WorkerPool> pool);

/// Compiles it once more, on the calling thread, as compile_model() did.
Result<std::shared_ptr<const Compiled>> compile_source(const Model& model);

/// `compiled` is one of the model's.
Result<std::unique_ptr<backend::Context>> create_context(std::shared_ptr<const Model> model,
                                                         std::shared_ptr<const Compiled> compiled);

}  // namespace penstock::openvino
