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
  // Position in the list of the stage that `kind` names: in_edges, out_edges, locals, plan
  // parameters, states_in or states_out.
  std::size_t where = 0;
  std::size_t tensor = 0;  // Of an edge: position in Edge::tensors.
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
  std::vector<Tensor> values;  // In the order of plan::Stage::parameters; in the host's memory.
  std::vector<bool> given;     // Of each of `values`: set_parameters() gave it.
  // elsewhere[m][i]: a copy of values[i] in Stage::own_memories[m].
  std::vector<std::vector<Tensor>> elsewhere;

  static constexpr std::size_t kHere = SIZE_MAX;
  /// `memory`: a position among Stage::own_memories, or kHere.
  [[nodiscard]] const std::vector<Tensor>& in(std::size_t memory) const {
    return memory == kHere ? values : elsewhere[memory];
  }
};

struct CompiledPartition {
  const plan::Partition* plan = nullptr;
  std::shared_ptr<backend::Backend> backend;  // Runs it on devices of this machine.
  std::shared_ptr<backend::Backend> remote;   // Runs it on devices of other machines.
  std::vector<Wire> inputs;                   // In the order of the executable's ports.
  std::vector<Target> outputs;                // In the order of the executable's ports.
  std::vector<backend::Port> ports;           // Of the first instance: inputs, then outputs.
};

/// Where the stage has an instance: its devices, then those that stand by.
inline std::vector<device::Device> places_of(const plan::Stage& stage) {
  auto places = stage.devices;
  places.insert(places.end(), stage.standby.begin(), stage.standby.end());
  return places;
}

struct Stage {
  const plan::Stage* plan = nullptr;
  std::size_t index = 0;                   // Position in plan::Plan::stages.
  std::vector<Edge*> in_edges, out_edges;  // That it reads, that it writes.
  std::vector<Edge*> lossy_in, lossy_out;  // Of in_edges and out_edges: may drop frames.
  std::vector<Edge*> kept_out;             // Of out_edges: Edge::lets_go() is true.
  std::vector<Edge*> lossable_in;          // Of in_edges: Edge::may_lose() is true.
  // Of in_edges and out_edges: Edge::keeps_shapes(), as a call of the stage that reads them takes
  // several frames, of one shape.
  std::vector<Edge*> shaped_in, shaped_out;
  // Edges whose frames stay in their slots until this stage is done with them: in_edges, and those
  // of which keepers_of() says so, from which its inputs can be made again.
  std::vector<Edge*> kept_for;
  std::vector<CompiledPartition> partitions;
  std::vector<device::Device> places;  // Of each instance: the replicas, then the stand-by devices.
  std::vector<MemoryPtr> memories;     // Of each of `places`: where it computes; null: the host's.
  std::vector<MemoryPtr> own_memories;   // Of `memories`: those that are not the host's, each once.
  std::vector<Type> locals;              // Values passed between partitions of this stage only.
  std::vector<std::string> local_names;  // Of each of `locals`.
  std::vector<StateEdge*> states_in, states_out;  // That it reads, that it writes.
  // Of each of states_out: where else the same tensor is written, if anywhere.
  std::vector<std::optional<Wire>> state_sources;
  // Numbers of frames, ascending, for which each partition has a model of its own; 1 is not listed.
  std::vector<int> batch_sizes;
  // Frames that can have come to this stage and not left it, at most, and those of them that edges
  // keep which may drop frames: see pipeline::most_waiting(). A batch waits for no more frames than
  // that, since no more can come.
  FrameNumber most_waiting = 1;
  FrameNumber most_kept = UINT64_MAX;
  // The same bound where states let a stream's next frame come only once this stage is done with
  // the one before: one frame of each stream. Not bounded so where no state does.
  FrameNumber most_streams = UINT64_MAX;
  // True: each stream's frames are computed by one replica, whose number is the stream's seat
  // (streams.h) modulo the number of replicas, and its states are written there. False: an idle
  // replica takes the next frame, of whichever stream.
  bool has_homes = false;
  bool may_drop = false;  // It is a function, which may drop a frame.
  // A state is written by this stage or by one behind it. The stage then computes a frame that
  // failed on a parallel branch too: what a state holds must not tell which branch was faster.
  bool feeds_state = false;

  Progress progress;                  // Frames this stage has completed.
  std::atomic<FrameNumber> next{0};   // The next frame to claim.
  std::atomic<int> able{0};           // Replicas that are neither exhausted nor lost.
  std::atomic<int> able_standbys{0};  // Stand-by devices that are neither exhausted nor lost.
  Returns returns;                    // Frames that instances took and gave back uncomputed.
  std::vector<Stage*> makers;         // Stages that this one may ask to make lost inputs again.
  std::vector<Stage*> askers;         // Stages that may ask this one to make lost outputs again.
  // Its frames begin in order, each when the one before has ended, on whichever instance: a frame
  // reads a state that the frame before it wrote here or behind.
  bool in_turn = false;
  std::atomic<int> await_turn{0};          // Instances that hold a frame and wait for its turn.
  std::vector<std::int64_t> ready_ns;      // By frame & window_mask: when this stage completed it.
  std::vector<std::uint8_t> computed;      // By frame & window_mask: whether it computed it.
  std::atomic<std::int64_t> period_ns{0};  // Moving average of the time between two frames.

  // Of the stages, or the pipeline's source, that write its inputs, each once; the source if it
  // reads nothing.
  std::vector<Progress*> producers;
  // Of each of `producers`: its ready_ns, or the source's.
  std::vector<const std::vector<std::int64_t>*> producer_ready_ns;
  std::vector<const Stage*> stages_before;  // Of `producers`: those that are stages.

  /// What ParameterVersion::in() takes for an instance that computes in this memory.
  [[nodiscard]] std::size_t parameters_in(const backend::Memory* memory) const {
    for (std::size_t i = 0; i < own_memories.size(); ++i) {
      if (same_memory(own_memories[i].get(), memory)) return i;
    }
    return ParameterVersion::kHere;
  }

  /// Whether a stand-by device takes frames: some replica is not able, or frames came back.
  [[nodiscard]] bool needs_standby() const {
    return able.load(std::memory_order_seq_cst) < static_cast<int>(plan->devices.size()) ||
           !returns.empty();
  }

  DriftWatch drift;  // Guarded by State::looked_at.

  std::mutex parameter_mutex;                                    // Guards `versions`.
  std::deque<std::shared_ptr<const ParameterVersion>> versions;  // Oldest first.
  std::atomic<std::uint64_t> newest_version{0};  // ParameterVersion::number of the newest.
};

}  // namespace penstock::pipeline
