// The ways of running a network that are compared: each runs frames from one ring for a while.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/backend/plain_model.h"
#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/frames/random.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/package.h"

namespace penstock::measure {

/// One round: how long frames run before they count, and while they do.
struct Round {
  std::chrono::nanoseconds warm_up;
  std::chrono::nanoseconds measured;
  std::function<bool()> stopped = [] { return false; };  ///< Asked after each frame; any thread.
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

using Ring = std::vector<frames::Frame>;
using Sides = std::vector<std::unique_ptr<Side>>;

/// The pipeline, from the calling thread. Where its plan has several streams, as many of them as
/// have a frame in flight take turns, and each gets the ring's frames in order; frames a second are
/// of all together. Where states grow, they begin anew with the ring, as they do in all other sides
/// that have states. Borrows both.
std::unique_ptr<Side> pipeline_side(pipeline::Pipeline& pipeline, const Ring& ring, int in_flight,
                                    std::string name = "penstock");

/// What the other sides run, and where.
struct PlainRequest {
  std::filesystem::path file;
  std::vector<std::filesystem::path> custom_ops;
  std::vector<int> cpus;     ///< Those that all sides may use.
  bool own_default = false;  ///< The engine chooses its threads itself, if it has the machine.
  /// The ring's frames are in the order of its plan's inputs, and its states are handed on.
  const plan::Package* package = nullptr;
  const Ring* ring = nullptr;
  std::map<std::string, Error> left_out = {};  ///< Sides by name, that are not made, and why.
  /// Told each side's name before it is made, which takes as long as its engine compiles.
  std::function<void(const std::string& name)> begins = [](const std::string&) {};
};

/// ONNX Runtime: one session with its default threads.
Result<std::unique_ptr<Side>> default_side(backend::Backend& backend, const PlainRequest& request);

/// One session of one thread for each CPU, each with a thread of its own there that runs one frame
/// after the other. `engine` names the side: "onnxruntime-per-core".
Result<std::unique_ptr<Side>> per_core_side(backend::Backend& backend, const PlainRequest& request,
                                            const std::string& engine = "onnxruntime");

/// OpenVINO with one of its performance hints, in f32: "LATENCY", or "THROUGHPUT", which keeps as
/// many infer requests in flight as the engine recommends; each begins its next frame when it has
/// ended the last.
Result<std::unique_ptr<Side>> hint_side(backend::Backend& backend, const PlainRequest& request,
                                        const std::string& hint);

/// All of them, as far as their engines are there and take the file. A way that runs several frames
/// at once cannot hand a state on, and is missing where there are states.
struct PlainSides {
  struct Missing {
    std::string name;
    Error reason;
  };
  Sides sides;  ///< "onnxruntime", "onnxruntime-per-core", "openvino-latency", "-throughput",
                ///< "-per-core".
  std::vector<Missing> missing;
};
PlainSides make_plain_sides(const PlainRequest& request, const backend::Registry& backends);

/// For each input of the model, its position among the plan's inputs, behind which are its states.
/// \error kInvalidArgument  the model has an input that the package has not: is it the same model?
Result<std::vector<std::size_t>> match_inputs(const backend::PlainModel& model,
                                              const plan::Plan& plan);

}  // namespace penstock::measure
