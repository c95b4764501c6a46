// Plan: how a network runs as a pipeline.
// A plain value; the one thing that the planning half and the running half share.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/device/device.h"
#include "penstock/tensor/tensor.h"

namespace penstock::plan {

inline constexpr int kVersion = 2;        ///< Of plan.json, as it is written.
inline constexpr int kOldestVersion = 1;  ///< A reader takes this to kVersion, and refuses others.

/// Stage instances (the replicas of all stages together) that a plan may have: each is a thread.
inline constexpr int kMostInstances = 1024;

/// Calls in flight of one instance, and calls that it may leave behind: each may be a thread.
inline constexpr int kMostLanes = 1024;

/// What a bound input whose value stands in plan.json may take in memory; more is in a file.
inline constexpr std::size_t kMostBoundBytes = std::size_t{64} << 20;

/// The backend of a partition that is no part of a network, but a function (docs/functions.md).
inline constexpr std::string_view kFunctionBackend = "function";

/// The backend that runs what is on other machines: stages on their devices, and models of servers.
inline constexpr std::string_view kRemoteBackend = "remote";

/// A tensor that enters, leaves or moves between stages, by the model's own name.
struct TensorInfo {
  std::string name;
  Type type;
  std::optional<WholeRange> range = {};  ///< Of an input: the numbers that the network takes.
  std::vector<std::string> words = {};   ///< Of an input of texts: those that the network knows.
  bool operator==(const TensorInfo&) const = default;
};

/// The model of a partition for several frames in one call.
struct BatchedModel {
  int frames = 2;     ///< From 2 to the stage's batch.frames.
  std::string model;  ///< Path in the package: "stages/0.b2.onnx".
  bool operator==(const BatchedModel&) const = default;
};

/// A model that a server of the Open Inference Protocol has.
struct ServedModel {
  std::string address;  ///< "host:port", "unix:PATH"
  std::string name;
  std::string version;  ///< Empty: the server's own choice.
  bool operator==(const ServedModel&) const = default;
};
/// "oip://host:port/name", "oip://host:port/name:version", "oip://unix:PATH/name".
std::string to_string(const ServedModel& model);
/// Whether the text begins as one does.
bool is_served_model(std::string_view text);
/// \error kInvalidArgument  names the text, what was expected and found.
Result<ServedModel> parse_served_model(std::string_view text);

/// A part of a stage that one backend runs. Partitions of a stage run one after the other.
struct Partition {
  std::string backend;  ///< "onnxruntime"
  /// Path in the package: "stages/0.onnx", "functions/libcrop.so". Empty for a function that the
  /// program registers; its name is the option "function".
  std::string model;
  std::vector<std::string> inputs, outputs;    ///< Tensor names, in the model's order.
  std::map<std::string, std::string> options;  ///< Passed to the engine.
  std::map<std::string, std::string> ports;    ///< Name in the model -> tensor, where they differ.
  /// In place of `model`: nothing is compiled. plan.json has it as the model, "oip://...".
  std::optional<ServedModel> served;
  /// A frame may be run again elsewhere, though the server is not one of ours.
  bool idempotent = false;
  /// Frames ascending. The first dimension of each input and output, parameters left out, holds so
  /// many frames one after the other; else they are as `model` is.
  std::vector<BatchedModel> batched;
  bool operator==(const Partition&) const = default;

  [[nodiscard]] const std::string& tensor_of(const std::string& port) const {
    const auto found = ports.find(port);
    return found == ports.end() ? port : found->second;
  }
};

/// Frames of one call, all of equal shapes.
struct Batch {
  int frames = 1;                     ///< At most.
  std::chrono::microseconds wait{0};  ///< That the first frame waits for more, at most.
  bool operator==(const Batch&) const = default;
};

/// What one worker runs for one frame. `devices.size()` is the number of replicas.
struct Stage {
  std::string name;                     ///< Unique: "stage0".
  std::vector<Partition> partitions;    ///< In order of execution; at least one.
  std::vector<std::string> inputs;      ///< Tensors read from edges, parameters left out.
  std::vector<std::string> outputs;     ///< Tensors written to edges.
  std::vector<std::string> parameters;  ///< Replaceable constants that it reads.
  std::vector<device::Device> devices;  ///< One for each replica.
  bool pinned = true;                   ///< The worker stays on its device's CPUs.
  bool flush_denormals = false;
  bool stateful = false;  ///< Sees the frames in order, one at a time: has one replica.
  /// Inputs of several items along their first dimension: the stage runs once for each item, and
  /// its outputs have as many. Empty: it runs once for each frame.
  std::vector<std::string> each;
  /// A call that takes longer hangs: its frames come out as errors, and its thread is left to
  /// itself, with what it may still touch. Where max_left_behind is 0 the frames behind it fail
  /// too, and pushes are refused.
  std::optional<std::chrono::microseconds> max_run;
  std::vector<std::string> nodes;  ///< Names of the nodes it holds, for reports. May be empty.
  int lanes = 0;  ///< Calls in flight of each instance, at most; 0: as many as the backend likes.
  /// Calls that hang that each instance may leave behind at a time. With one more its frames are
  /// unavailable until one has ended, where no other instance can take them; with 0 the pipeline
  /// ends.
  int max_left_behind = 0;
  /// CPUs of this machine where the thread of a stage on another device runs, ascending. Empty: any
  /// that no stage owns; where there is none, any.
  std::vector<int> host_cpus;
  Batch batch;
  std::vector<device::Device> standby;  ///< They take its frames over when its own are lost.
  /// Of computing one frame in one of its instances, the median, as was foretold; 0: unknown.
  double predicted_seconds = 0;
  std::vector<std::string> draws;  ///< Names of those of its nodes that draw random numbers.
  bool operator==(const Stage&) const = default;
};

enum class FullPolicy { kBlock, kDropOldest, kDropNewest, kLatest, kError };
std::string_view to_string(FullPolicy policy);
std::optional<FullPolicy> parse_full_policy(std::string_view text);

/// Where an edge begins or ends: a stage's position, or the pipeline's own input or output.
inline constexpr int kPipelineInput = -1;
inline constexpr int kPipelineOutput = -2;

/// Tensors with the same producer and the same readers: they travel together, slot by slot.
struct Edge {
  int from = kPipelineInput;  ///< Stage index, or kPipelineInput.
  std::vector<int> to;        ///< Stage indices ascending, kPipelineOutput last.
  std::vector<std::string> tensors;
  int capacity = 0;  ///< Slots; 0: chosen at start from the tensors' size.
  FullPolicy policy = FullPolicy::kBlock;
  bool operator==(const Edge&) const = default;
};

/// A tensor of frame n that stages read at frame n+1.
struct StateEdge {
  std::string from;     ///< Written by a stage of one replica, or of one for each stream.
  std::string to;       ///< Read by stages; of the same element type and shape.
  std::string initial;  ///< What frame 0 reads, in the package: "states/0.npy". Empty: zeros.
  bool operator==(const StateEdge&) const = default;
};

/// Sequences of frames with states of their own, of which stream 0 is always there.
struct Streams {
  int most = 1;        ///< At a time, stream 0 among them.
  bool evict = false;  ///< One more takes the place of that used last longest ago, or is refused.
  bool operator==(const Streams&) const = default;
};

/// A constant that may be replaced between frames.
struct Parameter {
  std::string name;
  Type type;
  std::string file;  ///< Its default in the package: "parameters/0.npy".
  bool operator==(const Parameter&) const = default;
};

/// An input of the model that has one value for good, and is no input of the plan.
struct BoundInput {
  std::string name;
  Type type;          ///< Fixed.
  std::string value;  ///< As parse_literal() reads it, of what such a text tells; else:
  std::string file;   ///< In the package: "bound/0.npy".
  /// Among the inputs that the model had; further than there are: behind them.
  std::size_t position = SIZE_MAX;
  bool operator==(const BoundInput&) const = default;
};

/// What the planner foretold; all in seconds, 0 where unknown.
struct Prediction {
  double period_seconds = 0;
  double latency_seconds = 0;
  double lower_bound_seconds = 0;  ///< Of the period, proved.
  bool operator==(const Prediction&) const = default;
};

/// What a plan was made from and with; another engine or machine at load is a warning.
struct Origin {
  std::map<std::string, std::string> engines;  ///< Backend name -> engine version.
  std::string cpu;                             ///< device::Topology::fingerprint.
  std::string penstock;                        ///< Version of Penstock.
  std::string model_file;    ///< As it was named then; a hint, as packages move. May be empty.
  std::string model_sha256;  ///< Of that file itself, its external data left out.
  bool operator==(const Origin&) const = default;
};

/// What a frame that fails does to the others.
enum class OnError {
  kDeliver,  ///< Nothing.
  kStop,     ///< Those before it finish, those behind it are cancelled, and no more are taken.
};

struct Plan {
  std::string model;                     ///< The model's name, for people.
  std::string model_hash;                ///< Canonical hash of the whole imported graph.
  std::vector<TensorInfo> inputs;        ///< In the model's order.
  std::vector<TensorInfo> outputs;       ///< In the model's order.
  std::vector<TensorInfo> tensors;       ///< Every other tensor that an edge or a partition names.
  std::vector<BoundInput> bound_inputs;  ///< In the model's order.
  std::vector<Parameter> parameters;
  std::vector<Stage> stages;  ///< In topological order.
  std::vector<Edge> edges;
  std::vector<StateEdge> states;
  Streams streams;
  OnError on_error = OnError::kDeliver;
  std::optional<std::chrono::microseconds> max_age;  ///< Deadline of each frame since its push.
  std::vector<std::string> custom_ops;  ///< Custom-operator libraries, paths in the package.
  Prediction prediction;
  Origin origin;
  std::map<std::string, std::string> files;  ///< Path in the package -> SHA-256.
  bool operator==(const Plan&) const = default;

  /// The tensor's info wherever it is listed, or null.
  [[nodiscard]] const TensorInfo* find_tensor(std::string_view name) const;
  /// The state edge that ends in this tensor, or null.
  [[nodiscard]] const StateEdge* find_state(std::string_view to) const;
};

/// Whether a value of one type may be taken for one of the other: what either leaves open agrees
/// with anything within its bound.
bool agree(const Type& a, const Type& b);

/// Whether a value of the type may be read item by item: slots for the most of them can be made,
/// and all items have one shape.
bool holds_items(const Type& type);
inline constexpr std::string_view kItemsExpected =
    "expected a bounded first dimension, all others fixed";

/// Every violation, one sentence each; empty means valid. Checks: unique names, every stage input
/// written exactly once by an earlier stage or a pipeline input, every edge's tensors known,
/// pipeline outputs produced, no cycle, devices named for each replica, kMostInstances at most,
/// capacities not negative, kLatest with capacity 0 or 1, paths relative and inside the package; of
/// states: one replica writes it where there is one stream, one type, a value for frame 0; of
/// lanes: one where a call follows from the one before, for functions, and for several partitions;
/// of models for several frames: ascending, within the stage's batch, none of a function; of bound
/// inputs: of a fixed type, no inputs, with a value or a file.
std::vector<std::string> violations(const Plan& plan);

/// The first violations as one error. \error kInvalidArgument
Status validate(const Plan& plan);

/// Makes output `state.from` and input `state.to` of the plan a state edge, and connects anew: what
/// edges were told of capacity and policy is forgotten. With `keep_output` `from` stays an output.
/// \error kNotFound         no such input or output: offers the nearest names.
/// \error kInvalidArgument  their types differ, the input is bound or reads a state already, the
/// output is one, or a stage that writes it has several replicas and the plan one stream.
Status add_state(Plan& plan, const StateEdge& state, bool keep_output = false);

/// Why a state is none by its names: an end is an input and an output in one, its ends are swapped,
/// or what stands behind the input is no .npy file. Nothing: none of them. By the names of the
/// inputs and the outputs that there are.
std::optional<Error> misread_state(const StateEdge& state, const std::vector<std::string>& inputs,
                                   const std::vector<std::string>& outputs);

/// What the first frame reads of a state of the plan: its file, or zeros. `folder`: of the package.
/// \error as read_npy(); kInvalidArgument  the value does not fit: names the state.
Result<Tensor> initial_value(const Plan& plan, const std::filesystem::path& folder,
                             const StateEdge& state);

/// What is said of a library where native code is not allowed.
Error native_code_refused(const std::string& library);

/// \error kPermissionDenied  the plan has libraries of functions or custom operators: names one.
Status refuse_native_code(const Plan& plan);

/// Groups what stages read and write into edges; fills `plan.edges` from stages, inputs, outputs.
void connect(Plan& plan);

}  // namespace penstock::plan
