// StateEdge: a tensor that one stage writes for a frame and others read at its stream's next frame.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "penstock/pipeline/frame.h"
#include "penstock/pipeline/memory.h"
#include "penstock/tensor/tensor.h"

namespace penstock::pipeline {

/// The values of one state, for each seat (streams.h) a ring of versions: one more for each frame
/// that the writer computed. A frame is told by its seat and its step: how many frames the seat had
/// before it.
///
/// A version of all seats is one block, a seat's value at `seat` x bytes, where the type is fixed
/// and there are several seats. Seats that follow one another and have their values in the same
/// block, as seats of streams that went equally many steps have, lie side by side: both where they
/// are read, now(), and where they are written, next().
/// \threads  a seat's functions that write: its frame's writer, or nobody's frame is in flight.
class StateEdge {
 public:
  /// Versions that are kept of each seat's value, where every reader is done with a frame before
  /// the writer begins it.
  static constexpr std::size_t kVersions = 2;
  /// The same, where a reader may still have a frame that the writer has computed.
  static constexpr std::size_t kVersionsBehind = 8;

  /// `initial`: what the first frame of a stream reads.
  /// `versions`: kVersions or kVersionsBehind. A writer may be ahead of a reader by `versions - 1`
  /// frames that it computed; frames that it passed on uncomputed do not count.
  /// `window`: as Progress::configure().
  /// `memory`: in which the values lie; null: the host's. \pre  in another one `type` has a bound
  StateEdge(std::string writes, std::string reads, const Type& type, const Tensor& initial,
            std::size_t seats, std::size_t versions, std::size_t window, backend::Memory* memory);
  /// Gives every version its storage. To be called before any other function that needs it.
  /// \error  of the memory that gives none or cannot copy `initial`.
  Status allocate();

  [[nodiscard]] backend::Memory* memory() const { return memory_; }
  [[nodiscard]] const Type& type() const { return type_; }

  /// What the frame reads. \pre the writer is done with the frame before of the same seat.
  [[nodiscard]] const Tensor& now(std::size_t seat, FrameNumber step) const {
    return slots_[seat * versions + version_of(seat, step)];
  }
  /// Where the writer writes the frame.
  Tensor& next(std::size_t seat, FrameNumber step) {
    return slots_[seat * versions + ((version_of(seat, step) + 1) & (versions - 1))];
  }
  /// Called by a reader whose call was left behind, and still reads the frame's now().
  void leave(std::size_t seat, FrameNumber step) {
    left_[seat * versions + version_of(seat, step)].store(true, std::memory_order_relaxed);
  }
  /// Whether a call that was left behind still reads the storage that next() gives the frame.
  [[nodiscard]] bool is_left(std::size_t seat, FrameNumber step) const {
    const std::size_t at = seat * versions + ((version_of(seat, step) + 1) & (versions - 1));
    return left_[at].load(std::memory_order_relaxed);
  }
  /// Gives next() other storage where is_left(). Called by the writer before it writes the frame.
  Status renew(std::size_t seat, FrameNumber step) {
    return renew(seat * versions + ((version_of(seat, step) + 1) & (versions - 1)));
  }
  /// Copies to next() a value of the same memory that others read too. Adds to `copies`.
  Status take(std::size_t seat, FrameNumber step, const Tensor& value, Within& within,
              std::uint64_t& copies) {
    if (memory_ != nullptr) return within.copy(value, next(seat, step), copies);
    copies += put(next(seat, step), value) ? 1 : 0;
    return {};
  }

  // For each frame the writer calls advance() or keep(), before its Progress says that it is done.
  /// The frame was computed: what next() holds is the state that the seat's next frame reads.
  void advance(std::size_t seat, FrameNumber step) {
    version_of(seat, step + 1) =
        static_cast<std::uint8_t>((version_of(seat, step) + 1) & (versions - 1));
  }
  /// The frame was not computed: the seat's next frame reads what this one read.
  void keep(std::size_t seat, FrameNumber step) {
    version_of(seat, step + 1) = version_of(seat, step);
  }

  /// What the seat's next frame reads. \pre none of its frames is in flight; `step`: that of the
  /// next one. `value`: in the host's memory.
  Status set(std::size_t seat, FrameNumber step, const Tensor& value);
  Status reset(std::size_t seat, FrameNumber step) { return set(seat, step, initial_); }
  /// A copy, in the host's memory, of what the seat's next frame reads. \pre  as set()
  [[nodiscard]] Result<Tensor> saved(std::size_t seat, FrameNumber step) const;

  const std::string from, to;  ///< Names of the tensors.
  const std::size_t versions;

 private:
  static bool put(Tensor& slot, const Tensor& value);
  Status renew(std::size_t at);
  [[nodiscard]] std::size_t place_of(std::size_t seat, FrameNumber step) const {
    return seat * (step_mask_ + 1) + (step & step_mask_);
  }
  std::uint8_t& version_of(std::size_t seat, FrameNumber step) {
    return version_of_[place_of(seat, step)];
  }
  [[nodiscard]] std::uint8_t version_of(std::size_t seat, FrameNumber step) const {
    return version_of_[place_of(seat, step)];
  }

  const Type type_;
  const Tensor initial_;
  backend::Memory* const memory_;
  std::vector<Tensor> slots_;            // By seat and version.
  std::vector<std::atomic<bool>> left_;  // Beside `slots_`: a call that was left behind reads it.
  const FrameNumber step_mask_;
  std::vector<std::uint8_t> version_of_;  // By seat and step: the version that the frame reads.
};

}  // namespace penstock::pipeline
