// StateEdge: a tensor that one stage writes for a frame and others read at the next frame.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "penstock/pipeline/frame.h"
#include "penstock/tensor/tensor.h"

namespace penstock::pipeline {

/// A ring of versions: 0 is the initial value, one more for each frame that the writer computed,
/// and for each reset. The writer, one thread, may be kSlots - 2 frames ahead of the readers; what
/// it wrote is seen through its Progress, and room is what the readers' Progress says.
class StateEdge {
 public:
  static constexpr FrameNumber kSlots = 8;
  /// A frame is computed once the readers are done with this many frames before it.
  static constexpr FrameNumber kCapacity = kSlots - 1;
  static constexpr FrameNumber kTensors = kSlots + 1;  ///< All that it holds, `initial` too.

  /// `initial` is what frame 0 reads. `window`: as Progress::configure().
  StateEdge(std::string writes, std::string reads, const Type& type, const Tensor& initial,
            std::size_t window);

  /// Where the writer writes the frame that it computes now.
  Tensor& next() { return slots_[(version_ + 1) % kSlots]; }
  /// Copies a value that others read too. \returns whether bytes were copied.
  bool take(const Tensor& value);
  /// The writer computed its frame: next() becomes the state.
  void advance() { ++version_; }
  /// The writer is done with the frame, however it fared. Before its Progress says so.
  void complete(FrameNumber frame) { after_[frame & mask_] = version_; }

  /// Frame `next` reads the initial value. \pre all frames before it are done, and it waits.
  void reset(FrameNumber next);

  /// What the frame reads. \pre the writer is done with the frame before.
  [[nodiscard]] const Tensor& before(FrameNumber frame) const {
    return slots_[frame == 0 ? 0 : after_[(frame - 1) & mask_] % kSlots];
  }

  const std::string from, to;  ///< Names of the tensors.

 private:
  const Tensor initial_;
  std::array<Tensor, kSlots> slots_;
  FrameNumber version_ = 0;         // The writer's.
  std::vector<FrameNumber> after_;  // frame & mask_ -> version once the writer is done with it.
  FrameNumber mask_;
};

}  // namespace penstock::pipeline
