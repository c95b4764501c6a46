// Stage: what all replicas of a plan stage share: compiled models, wiring, parameters, progress.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/pipeline/drift.h"
#include "penstock/pipeline/edge.h"
#include "penstock/pipeline/progress.h"
#include "penstock/pipeline/returns.h"
#include "penstock/pipeline/state_edge.h"
#include "penstock/plan/plan.h"

namespace penstock::pipeline {

struct State;

/// Where a tensor of a partition lies.
struct Wire {
  enum class Kind : std::uint8_t { kInEdge, kOutEdge, kLocal, kParameter, kStateIn, kStateOut };
  Kind kind = Kind::kLocal;
  std::size_t where = 0;   // Position in the stage's in_edges, out_edges, locals, parameters, ...
  std::size_t tensor = 0;  // Position in the edge's tensors.
  bool fresh = false;      // Nothing bounds its shape: the backend allocates it for each frame.
  bool items = false;      // Holds several items along its first dimension; a call gets one.
};

/// Where a partition puts one of its outputs.
struct Target {
  Wire wire;
  std::string name;  // In the plan.
  Type type;         // What one call writes there.
  Type storage;      // What is kept there, of all items.
};

/// The values of a stage's parameters from one frame on.
struct ParameterVersion {
  std::uint64_t number = 0;
  FrameNumber first_frame = 0;
  std::vector<Tensor> values;  // In the order of plan::Stage::parameters.
  std::vector<bool> given;     // Beside them: by set_parameters().
  // The same values in each of Stage::own_memories.
  std::vector<std::vector<Tensor>> elsewhere;

  static constexpr std::size_t kHere = SIZE_MAX;
  /// `memory`: a position among Stage::own_memories, or kHere.
  [[nodiscard]] const std::vector<Tensor>& in(std::size_t memory) const {
    return memory == kHere ? values : elsewhere[memory];
  }
};

struct CompiledPartition {
  const plan::Partition* plan = nullptr;
  std::shared_ptr<backend::Backend> backend;
  std::shared_ptr<backend::Backend> remote;  // In its place on other machines.
  std::vector<Wire> inputs;                  // In the order of the executable's ports.
  std::vector<Target> outputs;               // In the order of the executable's ports.
  std::vector<backend::Port> ports;          // Of the first instance: inputs, then outputs.
};

/// Where the stage has an instance: its devices, then those that stand by.
inline std::vector<device::Device> places_of(const plan::Stage& stage) {
  auto places = stage.devices;
  places.insert(places.end(), stage.standby.begin(), stage.standby.end());
  return places;
}

struct Stage {
  const plan::Stage* plan = nullptr;
  std::size_t index = 0;
  std::vector<Edge*> in_edges, out_edges;
  std::vector<Edge*> lossy_in, lossy_out;  // Those of them that may drop frames.
  std::vector<Edge*> kept_out;             // Those that Edge::lets_go().
  std::vector<Edge*> lossable_in;          // Those that Edge::may_lose().
  std::vector<Edge*> kept_for;  // Edges that it reads, or for whose frames they are kept.
  std::vector<CompiledPartition> partitions;
  std::vector<device::Device> places;  // Of each instance: the replicas, then the stand-by devices.
  std::vector<MemoryPtr> memories;     // Beside them; null: the host's.
  std::vector<MemoryPtr> own_memories;  // Those of them that are not the host's, each once.
  std::vector<Type> locals;             // Values passed between partitions of the stage only.
  std::vector<std::string> local_names;
  std::vector<StateEdge*> states_in, states_out;   // That it reads, that it writes.
  std::vector<std::optional<Wire>> state_sources;  // Beside states_out: where else it is written.
  std::vector<int> batch_sizes;  // Ascending, 1 left out: frames for which there are models.
  // While it holds one, at most so many come, that one among them: see most_waiting(). And of so
  // many streams.
  FrameNumber most_waiting = 1, most_streams = UINT64_MAX;
  // Each stream has one replica for its home, where its states are written: that of the seat's
  // number. Else the idle replica takes the next frame.
  bool has_homes = false;
  bool may_drop = false;  // A function: it may drop a frame.
  // A state is written here or behind. Such a stage runs where those before it did, however the
  // frame fares beside it: else states would tell who was faster.
  bool feeds_state = false;

  Progress progress;                  // Frames this stage has completed.
  std::atomic<FrameNumber> next{0};   // The next frame to claim.
  std::atomic<int> able{0};           // Replicas that are neither exhausted nor lost.
  std::atomic<int> able_standbys{0};  // Stand-by devices that are neither exhausted nor lost.
  Returns returns;  // Of replicas and stand-by devices that are lost, and to be made again.
  // Stages that may be asked to make again what this one waits for, and those that may ask this
  // one.
  std::vector<Stage*> makers, askers;
  // One frame at a time, in order, whichever instance has it: the next one reads its state, or one
  // that is written behind it.
  bool in_turn = false;
  std::atomic<int> await_turn{0};          // Instances that wait for that.
  std::vector<std::int64_t> ready_ns;      // By frame & window_mask: when this stage completed it.
  std::vector<std::uint8_t> computed;      // By frame & window_mask: whether it computed it.
  std::atomic<std::int64_t> period_ns{0};  // Moving average of the time between two frames.

  std::vector<Progress*> producers;  // Of its inputs, each once. The source if it has none.
  std::vector<const std::vector<std::int64_t>*> producer_ready_ns;  // Beside `producers`.
  std::vector<const Stage*> stages_before;                          // Of them, the stages.

  /// Where an instance that computes in the memory finds parameters: ParameterVersion::in().
  [[nodiscard]] std::size_t parameters_in(const backend::Memory* memory) const {
    for (std::size_t i = 0; i < own_memories.size(); ++i) {
      if (same_memory(own_memories[i].get(), memory)) return i;
    }
    return ParameterVersion::kHere;
  }

  /// Whether a stand-by device takes frames.
  [[nodiscard]] bool needs_standby() const {
    return able.load(std::memory_order_seq_cst) < static_cast<int>(plan->devices.size()) ||
           !returns.empty();
  }

  DriftWatch drift;  // Guarded by State::looked_at.

  std::mutex parameter_mutex;                                    // Guards `versions`.
  std::deque<std::shared_ptr<const ParameterVersion>> versions;  // Oldest first.
  std::atomic<std::uint64_t> newest_version{0};                  // Its number.
};

}  // namespace penstock::pipeline
