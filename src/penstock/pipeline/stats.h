// What a running pipeline tells of itself.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace penstock::pipeline {

/// Quantiles of a duration in nanoseconds, within 3 %. All 0 before the first frame.
struct Quantiles {
  std::uint64_t count = 0;
  double p50_ns = 0, p90_ns = 0, p99_ns = 0, max_ns = 0;
  double sum_ns = 0;  ///< Of all together, within 2 %.
};

/// How the time of computing a frame compares with what the plan foretold: medians.
struct Drift {
  double predicted_ns = 0;
  double seen_ns = 0;         ///< Of the last three seconds or more in which there were frames.
  double ratio = 0;           ///< Of what was seen over what was foretold.
  bool beyond_noise = false;  ///< By more than 10 % in each of three seconds, at load.
};

/// One replica of a stage.
struct InstanceStats {
  std::string device;
  std::uint64_t frames = 0;  ///< Computed without error.
  double infer_ns = 0;       ///< The backends' run of them, all together, within 2 %.
  bool able = true;  ///< False: its device is lost, or too many of its runs hang: others compute.
};

/// One stage, its replicas together. Phases carry Triton's names.
struct StageStats {
  std::string name;
  std::string device;        ///< "cpu:0", or "cpu:0,cpu:1" for replicas.
  std::string backend;       ///< "onnxruntime", or several joined by "+".
  int replicas = 1;          ///< Without devices that stand by, which `instances` has behind them.
  int lanes = 1;             ///< Calls in flight, at most, of each replica.
  std::uint64_t frames = 0;  ///< Computed without error.
  std::uint64_t errors = 0;  ///< Failed here.
  std::uint64_t drops = 0;   ///< Dropped here by a function, or before it by an edge's policy.
  /// [n - 1]: calls that held n frames. As many entries as one call takes frames: one where the
  /// stage runs for each item of a frame, as all items are one call of it.
  std::vector<std::uint64_t> calls;
  std::uint64_t surplus = 0;      ///< Rows of such calls that were computed and thrown away.
  std::uint64_t copies = 0;       ///< Tensors copied by the runtime or the backend.
  std::uint64_t allocations = 0;  ///< Tensor buffers allocated after start, by runtime or backend.
  Quantiles queue;                ///< From being ready (inputs there) to its start.
  Quantiles compute_input;        ///< Gathering and binding inputs and outputs.
  Quantiles compute_infer;        ///< The backends' run.
  Quantiles compute_output;       ///< Handing the outputs on.
  Quantiles transfer;             ///< Moving between memory domains or hosts: 0 within one.
  /// In which the replicas had calls that ended, well or not, all together: what frames share
  /// counts once, calls of several lanes one by one. Within 2 %.
  double busy_ns = 0;
  std::vector<InstanceStats> instances;
  /// None: the plan foretells nothing, or nobody asked for a second while there were frames.
  std::optional<Drift> drift;
};

struct EdgeStats {
  std::string name;  ///< "stage0 -> stage1", "input -> stage0"
  std::vector<std::string> tensors;
  int capacity = 0;         ///< Slots.
  std::uint64_t depth = 0;  ///< Frames in it now.
  std::uint64_t drops = 0;  ///< By its policy.
  std::uint64_t bytes = 0;  ///< Of its slots; 0 where the backend allocates them.
  std::string memory;       ///< In which they lie: "host", "cuda:0".
  /// What the slots have besides in other memories, for stages that read or write there.
  std::map<std::string, std::uint64_t> mirrors;
  bool backend_allocated = false;  ///< Nothing bounds the shape of one of its tensors.
  std::string policy;
};

/// The calls of a stage that held so many frames, and what they took, all together. One call in 16
/// of stages that take less than 20 us tells the phases apart.
struct CallStats {
  std::uint64_t calls = 0;
  double input_ns = 0, infer_ns = 0, output_ns = 0;  ///< As the phases of StageStats.
};

/// The frames that went to plans of one label (Options::label), one behind the other.
struct PlanStats {
  std::string label;
  std::uint64_t frames = 0;  ///< Pushed to them.
};

struct Stats {
  std::uint64_t pushed = 0, popped = 0, ok = 0, errors = 0, drops = 0, cancelled = 0;
  std::uint64_t streams = 1;  ///< Known now.
  std::uint64_t streams_evicted = 0;
  std::optional<std::uint64_t> memory_bytes;  ///< The host's, as Pipeline::memory_bytes().
  /// [n - 1]: calls of n frames of the first stage, of all plans since the start, none left out
  /// while one replaces another.
  std::vector<CallStats> first_calls;
  std::vector<PlanStats> plans;    ///< Since the start, in their order; the last one takes frames.
  std::vector<StageStats> stages;  ///< Of the plan that takes frames, as are the edges.
  std::vector<EdgeStats> edges;
};

}  // namespace penstock::pipeline
