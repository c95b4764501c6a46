// Instance: a replica of a stage, or a device that stands by for it, and what it waits for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "penstock/pipeline/stage.h"
#include "penstock/pipeline/state.h"
#include "penstock/pipeline/wait.h"

namespace penstock::pipeline {

/// What the parts of a worker share.
/// \threads  the worker's own, but `parker`, by which any thread wakes it.
struct Instance {
  Instance(State& of, Stage& stage_of, std::size_t number)
      : state(of), stage(stage_of), replica(number), replicas(stage_of.plan->devices.size()) {}

  /// Nanoseconds between two looks at a call that goes on by itself, or at a lost device.
  static constexpr std::int64_t kLook = 50'000'000;

  State& state;
  Stage& stage;
  const std::size_t replica;   // Position in Stage::places: a replica, or a stand-by device.
  const std::size_t replicas;  // Of the stage, without devices that stand by.

  Parker parker;             // Where the worker's thread sleeps.
  std::vector<Wait> inputs;  // Of each of Stage::producers: until it has completed a frame.
  /// One stage that reads one of the out edges: a frame n has room there once that stage has
  /// completed frame n - capacity.
  struct Room {
    Wait wait;
    FrameNumber capacity = 0;
  };
  std::vector<Room> rooms;   // Of every out edge and stage that reads it.
  std::vector<Wait> states;  // Of each other stage that writes a state which this one reads.

  std::int64_t clock_ns = 0;  // Steady clock: when the last frame ended; the next begins then ...
  bool idled = true;          // ... unless the thread has waited since.

  [[nodiscard]] bool stands_by() const { return replica >= replicas; }
  /// Whether the instance may claim a frame now.
  [[nodiscard]] bool may_claim() const { return !stands_by() || stage.needs_standby(); }
  /// Whether the worker leaves rather than wait for this frame: it will not come.
  [[nodiscard]] bool leaves_at(FrameNumber frame) const;
  /// Whether an instance that waits for this frame waits in vain: another one took it.
  [[nodiscard]] bool was_taken(FrameNumber frame) const {
    return !stage.has_homes && stage.next.load(std::memory_order_seq_cst) != frame;
  }

  [[nodiscard]] bool has_inputs(FrameNumber frame) {
    bool ready = true;
    for (auto& wait : inputs) {
      if (wait.seen <= frame) wait.seen = wait.progress->done();
      ready = ready && wait.seen > frame;
    }
    return ready;
  }
  /// When all its inputs were there. \pre  has_inputs()
  [[nodiscard]] std::int64_t ready_since(FrameNumber frame) const {
    std::int64_t ready = 0;
    for (const auto* times : stage.producer_ready_ns) {
      ready = std::max(ready, (*times)[frame & state.window_mask]);
    }
    return ready;
  }
  /// What the frame waits for, and the count that this must reach; null where it can begin.
  std::pair<Wait*, FrameNumber> obstacle(FrameNumber frame);

  void wait_for_input(FrameNumber frame);
  void wait_for_turn(FrameNumber frame);  ///< \pre  Stage::in_turn
  /// Whether the frame, which nobody has yet, has room on all out edges. False: the thread slept,
  /// and must look again.
  bool has_room(FrameNumber frame);
  /// Of a frame that the worker has. \returns whether something may have become of the frame
  /// meanwhile: the thread slept, or the pipeline was cancelled, and there may be no room.
  bool wait_for_room(FrameNumber frame) {
    bool waited = false;
    for (auto& room : rooms) {
      if (frame < room.capacity) continue;
      const FrameNumber least = frame - room.capacity + 1;
      if (room.wait.seen < least && wait_for(room, least)) waited = true;
    }
    return waited;
  }
  bool wait_for_states(FrameNumber frame);  ///< \returns  as wait_for_room()

 private:
  bool wait_for(Room& room, FrameNumber least);
  void sleep_for_room(Wait& wait, FrameNumber least, const std::function<bool()>& interrupted);
};

}  // namespace penstock::pipeline
