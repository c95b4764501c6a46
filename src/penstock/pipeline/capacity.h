// How many slots each edge has, and so how much memory a plan's edges take.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "penstock/pipeline/memory.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/plan.h"

namespace penstock::pipeline {

/// Dropped frames that may await their turn to come out, where an edge drops frames.
inline constexpr int kLossyWindow = 4096;

/// Replicas of a stage; 1 for the pipeline's own ends.
std::size_t replicas_of(const plan::Plan& plan, int stage);

/// Most frames that a call of a stage at the edge's ends takes; 1 where none takes several.
int most_together(const plan::Plan& plan, const plan::Edge& edge);

/// Frames that the edges which lead to a stage and past it hold, while the stage holds the first.
struct Waiting {
  /// So many can have come to the stage at most, that first frame among them.
  std::uint64_t come = 1;
  /// So many of these at most were not dropped since, nor kept out the next one: edges that may
  /// drop frames keep no more. UINT64_MAX: there is no such edge.
  std::uint64_t kept = UINT64_MAX;
};
/// `in_flight`: most frames between push and release.
Waiting most_waiting(const plan::Plan& plan, int stage, std::uint64_t in_flight);
/// Whether a stream's next frame comes to the stage only once it is done with the one before, since
/// a state that is written there or behind is read there or before.
bool one_of_each_stream(const plan::Plan& plan, int stage);
/// Whether each stream has one replica of the stage for its home, where its states are written.
bool has_homes(const plan::Plan& plan, const plan::Stage& stage);

/// Bytes of one frame on the edge, shapes at their bound; empty where a tensor has no bound.
std::optional<std::size_t> slot_bytes(const plan::Plan& plan, const plan::Edge& edge);

/// Frames that the edge may hold: what the plan says, else chosen from the sizes.
int choose_capacity(const plan::Plan& plan, const plan::Edge& edge);

/// How many versions of a state are kept for each stream: more where a stage that reads it may be
/// behind the one that writes it.
std::size_t state_versions(const plan::Plan& plan, const plan::StateEdge& state);

/// Slots of an edge to the pipeline's output for results that the caller holds while later frames
/// need theirs: Options::max_held; of other edges 0.
int kept_slots(const plan::Edge& edge, const Options& options);

/// What the stages' replicas compute in: by stage and replica, null for the host's memory.
using Memories = std::vector<std::vector<MemoryPtr>>;
/// Asks the backends. A backend that is not among them counts as one in the host's memory.
Memories memories_of(const plan::Plan& plan, const backend::Registry& backends);
EdgeMemories memories_of(const plan::Plan& plan, const plan::Edge& edge, const Memories& memories);

/// The memory in which the values of a state lie: that in which all stages compute that read or
/// write it, where it is one and the same; else null, the host's.
backend::Memory* memory_of(const plan::Plan& plan, const plan::StateEdge& state,
                           const Memories& memories);

/// Stages, ascending, that do not read the edge, and until which are done its frames are kept:
/// their own inputs are made of these frames, and may be lost with another machine before they are
/// read.
std::vector<int> keepers_of(const plan::Plan& plan, const plan::Edge& edge,
                            const Memories& memories);
/// Slots that the edge has beyond its capacity: keeping_slots(), and on an edge that may drop
/// frames one for each frame that is being written or read, as far as the plan says how many.
int spare_slots(const plan::Plan& plan, const plan::Edge& edge, const Memories& memories);
/// Slots for frames whose readers are done, and which keepers_of() the edge still need; 0: it has
/// no keepers.
int keeping_slots(const plan::Plan& plan, const plan::Edge& edge, const Memories& memories);

/// As memory_ceiling(), where the plan runs in these memories: the host's alone is counted.
std::optional<std::uint64_t> memory_ceiling(const plan::Plan& plan, const Options& options,
                                            const Memories& memories);

/// Whether what lies in the host's memory fits into `available_bytes`; tensors without bound count
/// 0. \error kResourceExhausted  names the largest edge.
Status check_memory(const plan::Plan& plan, const Options& options, const Memories& memories,
                    std::uint64_t available_bytes);

/// Most frames that a sleeping stage may wait for at once (see sleep_until): half of what the
/// smallest edge holds. 1 where an edge may drop frames, or where a stage waits for a state that
/// another one writes: a wake that comes late would hold up the stage that it waits for.
int choose_wake_batch(const plan::Plan& plan);

}  // namespace penstock::pipeline
