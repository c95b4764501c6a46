// Returning: frames that an instance has begun, and that another one computes, or itself later.
#pragma once

#include "penstock/pipeline/ability.h"
#include "penstock/pipeline/instance.h"
#include "penstock/pipeline/lane.h"
#include "penstock/pipeline/returns.h"

namespace penstock::pipeline {

/// Moves frames between an instance and the Returns of its stage, and reads the inputs that may be
/// lost with another machine (Remakes).
/// \threads  the worker's own; leave_inputs() also another one's that gives up its call.
class Returning {
 public:
  Returning(Instance& instance, Ability& ability) : self_(instance), ability_(ability) {}

  bool take(Lane& lane);  ///< Takes a frame that came back, if there is one.
  /// Gives the lane's frames, which cannot be computed here, to the other instances. Those that no
  /// other one may take, or that came back too often, stay in the lane.
  void hand_back(Lane& lane);
  /// Begins to read the inputs of the lane's frames. Frames whose inputs are being made again leave
  /// the lane, and come back by Returns.
  void enter(Lane& lane);
  /// Ends what enter() began for a frame, on all edges but `lost`.
  void leave_inputs(FrameNumber frame, const Edge* lost = nullptr);
  /// A call of the lane ended as unavailable for its i-th frame. \returns whether that is computed
  /// all the same: it comes back here, or went to another instance.
  bool recover(Lane& lane, std::size_t i);

 private:
  bool hand_back(const Returns::Taken& taken);
  bool enter(const Returns::Taken& taken);  ///< False: the frame comes back later.
  bool wait_for_remake(Lane& lane, std::size_t i);
  [[nodiscard]] bool may_come_back(FrameNumber frame);
  [[nodiscard]] bool may_run_again() const;

  Instance& self_;
  Ability& ability_;
};

}  // namespace penstock::pipeline
