// The ways that `penstock bench` compares: each runs frames from the same ring for a while.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/cli/inputs.h"
#include "penstock/pipeline/pipeline.h"

namespace penstock::cli {

/// One round: how long frames run before they count, and while they do.
struct Round {
  std::chrono::nanoseconds warm_up;
  std::chrono::nanoseconds measured;
};

struct Sample {
  double frames_per_second = 0;
  std::vector<float> latencies_ns;
};

class Side {
 public:
  virtual ~Side() = default;
  [[nodiscard]] virtual std::string name() const = 0;  ///< As the JSON has it.
  [[nodiscard]] virtual std::string explain() const = 0;
  [[nodiscard]] virtual int in_flight() const = 0;
  /// \error  the first frame's that failed.
  virtual Result<Sample> measure(const Round& round) = 0;
};

using Ring = std::vector<FrameInputs>;

/// The pipeline, from the calling thread. Borrows both.
std::unique_ptr<Side> pipeline_side(pipeline::Pipeline& pipeline, const Ring& ring, int in_flight);

/// What the other sides run, and where.
struct PlainRequest {
  std::filesystem::path file;
  std::vector<std::filesystem::path> custom_ops;
  std::vector<int> cpus;     ///< Those that all sides may use.
  bool own_default = false;  ///< ONNX Runtime chooses its threads itself.
  const plan::Plan* plan = nullptr;
  const Ring* ring = nullptr;  ///< In the order of the plan's inputs.
};

/// One session with ONNX Runtime's default threads.
Result<std::unique_ptr<Side>> default_side(backend::Backend& backend, const PlainRequest& request);

/// One session of one thread for each CPU, each with a thread of its own there.
Result<std::unique_ptr<Side>> per_core_side(backend::Backend& backend, const PlainRequest& request);

}  // namespace penstock::cli
