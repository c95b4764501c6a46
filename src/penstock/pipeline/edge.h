// Edge: the slots through which one part of the pipeline hands tensors to others.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/cache_line.h"
#include "penstock/pipeline/blocks.h"
#include "penstock/pipeline/frame.h"
#include "penstock/pipeline/memory.h"
#include "penstock/pipeline/remakes.h"
#include "penstock/plan/plan.h"
#include "penstock/tensor/tensor.h"

namespace penstock::pipeline {

/// The largest shape of a type; Dim::kOpen where nothing bounds a dimension.
std::vector<std::int64_t> bound_of(const Type& type);
/// Zero-filled storage for the largest value of the type; none where nothing bounds its shape.
Tensor storage_for(const Type& type);
/// Makes `tensor`, whatever it is, storage for the type: what it has is kept where it will do.
void restore_storage_for(const Type& type, Tensor& tensor);
/// Whether `tensor` is storage for the type; it is then given the largest shape.
bool has_room_for(const Type& type, Tensor& tensor);

/// One frame's tensors on one edge, in another memory than the edge's.
struct Mirror {
  static constexpr FrameNumber kNoFrame = UINT64_MAX;

  std::mutex mutex;                // Held by who brings a frame here.
  FrameNumber frame = kNoFrame;    // Whose tensors `own` holds.
  std::vector<Tensor> own;         // Of each of Edge::tensors.
  std::vector<const Tensor*> now;  // What readers read: pointers into `own`.
};

/// One frame's tensors on one edge. What every frame needs lies in the first cache line.
struct alignas(kCacheLine) Slot {
  std::vector<const Tensor*> now;  ///< What readers read: into `own` or `lent`.
  std::vector<Tensor> own;         ///< The edge's storage; empty until needed on the input edges.
  /// A call that was left behind still reads `own`, or a mirror's: see Edge::renew().
  std::atomic<bool> left{false};
  std::atomic<int> readers{0};  ///< Where Edge::lets_go(): readers to come, if several.
  std::vector<Tensor> lent;     ///< Input edges: the caller's tensors of the frame in the slot.
  std::vector<std::unique_ptr<Mirror>> mirrors;  ///< One for each that Edge::place() found.
};

/// "stage0 -> stage1", "input -> stage0+stage1".
std::string edge_name(const plan::Plan& plan, const plan::Edge& edge);

/// A slot is written by the frame's producer and read by every reader.
///
/// With policy `block`, frame n lives in slot n % capacity: the writer waits until every reader has
/// completed frame n - capacity (their Progress says so), and nothing here takes part in it. The
/// other policies need the slots of dropped frames back at once: there a frame is given a slot when
/// it is written, under a lock, and the oldest frame that no reader has begun may lose its own.
class Edge {
 public:
  Edge(const plan::Edge& plan, std::vector<Type> types, int capacity, std::string name);

  /// `keepers`: stages that do not read the edge, and for which a frame's tensors stay as for those
  /// that do. \pre  not allocated.
  void place(EdgeMemories memories, std::size_t keepers) {
    memory_ = memories.own;
    mirrors_ = std::move(memories.mirrors);
    readers_ = static_cast<int>(to.size() + keepers);
  }

  /// \param spare  slots beyond the capacity: as of spare_slots().
  /// \param window  a power of two, over the number of frames in flight.
  /// \param kept  slots more that fresh_slot() may make.
  /// \param together  the first slots, and their mirrors, lie one behind the other, as rows of one
  ///                  tensor: a call for several frames then reads and writes them in place.
  /// \error  of the memory that gives no storage; names the edge.
  Status allocate(bool own_storage, int spare, std::size_t window, int kept, bool together);

  [[nodiscard]] bool lossy() const { return policy != plan::FullPolicy::kBlock; }
  [[nodiscard]] int capacity() const { return capacity_; }
  [[nodiscard]] std::size_t bytes_per_slot()
      const;  ///< Open shapes at their bound; unbounded as 0.
  [[nodiscard]] std::size_t slot_count() const { return most_slots_; }  ///< At most.
  /// Frames that have a slot of their own at a time, whoever reads them or not.
  [[nodiscard]] std::size_t places() const { return place_count_; }
  /// Frames whose tensors each of mirrors() holds at a time.
  [[nodiscard]] std::size_t mirror_count() const { return place_count_; }

  void free_slots() { slots_.clear(); }  ///< \pre  nobody reads or writes one any more.

  /// The slot of a frame that is being written or read.
  Slot& slot(FrameNumber frame) { return *place_of(frame).load(std::memory_order_acquire); }

  /// The slot for what is tried before the first frame.
  Slot& first_slot() { return *slots_.front(); }

  // For results that keep their slots; see Loans, whose lock is held.

  Slot& fresh_slot();  ///< One that was put aside, or a new one. May throw bad_alloc.
  void put_aside(Slot& slot);
  /// Puts `fresh` in the place of the frame's slot, which is read no more by anybody else.
  /// \returns that slot.
  Slot* replace_slot(FrameNumber frame, Slot& fresh);

  static constexpr std::size_t kOwn = SIZE_MAX;  ///< No mirror: the slot's own tensors.
  /// Which of the slot's mirrors lies in the memory; else the host's, which a memory that has none
  /// of its own here reaches; kOwn where the slot's own tensors are there.
  [[nodiscard]] std::size_t mirror_in(const backend::Memory* memory) const;
  [[nodiscard]] backend::Memory* memory() const { return memory_; }  ///< Of the slots' own tensors.
  /// Whether a frame's tensors may be lost before all have read them; then remakes() make them
  /// anew.
  [[nodiscard]] bool may_lose() const { return memory_ != nullptr && memory_->may_lose(); }
  /// Whether the frame's tensors are lost, as the slot shows them, or its mirror `at`.
  /// \pre  may_lose()
  [[nodiscard]] bool is_lost(Slot& slot, std::size_t at, FrameNumber frame) const;
  Remakes remakes;  ///< \pre  may_lose()
  [[nodiscard]] const std::vector<backend::Memory*>& mirrors() const { return mirrors_; }
  /// Copies the frame to the slot's mirror `at`, once for all who ask: later ones find it there.
  /// Adds to `copies`. \pre  it was written. \error  of a copy; names the tensor and both memories.
  Status bring(Slot& slot, std::size_t at, FrameNumber frame, std::uint64_t& copies);
  /// Copies the frame, which its writer put into the mirror `at`, to the slot's own tensors: from
  /// there it gets to all other readers.
  Status bring_back(Slot& slot, std::size_t at, FrameNumber frame, std::uint64_t& copies);

  /// Gives the slot storage of its own if it has none yet, and open shapes their bound.
  void ensure_own(Slot& slot) const;
  /// Gives the slot and its mirrors other storage before they are written, where a call that was
  /// left behind still reads what they have. \error  of the memory that gives none.
  Status renew(Slot& slot) {
    return slot.left.load(std::memory_order_relaxed) ? replace_all(slot) : Status();
  }

  /// Makes `tensors` (one for each tensor of the edge) what the readers of the slot see.
  static void point_at(Slot& slot, const std::vector<Tensor>& tensors);

  /// Whether something is kept for a frame until its last reader is done: tensors that the caller
  /// lent, or values in another memory than the host's.
  [[nodiscard]] bool lets_go() const { return from == plan::kPipelineInput || memory_ != nullptr; }
  /// Where it lets_go(): the frame's readers are to come, each of which ends with end_read().
  void begin_readers(FrameNumber frame) {
    if (readers_ == 1) return;  // The only one lets go of what was lent.
    if (!lossy()) slot(frame).readers.store(readers_, std::memory_order_relaxed);
  }
  /// Each reader and keeper, once for each frame, however the frame fared: what the edge holds of
  /// it may go.
  void end_read(FrameNumber frame);

  /// Whether a frame's shape on the edge is the frame's own.
  [[nodiscard]] bool has_open_shapes() const {
    return std::ranges::any_of(types, [](const Type& type) { return !type.fixed(); });
  }
  /// From now on shape_of() tells of frames. \param window  as of allocate().
  void keep_shapes(std::size_t window);
  [[nodiscard]] bool keeps_shapes() const { return !shapes_.empty(); }
  /// By who wrote the frame, before others see it: of what readers of its slot see.
  void note_shape(FrameNumber frame);
  /// A number for the frame's shape, alike for frames of one shape and hardly ever for others; 0:
  /// none was noted. Of a frame that failed or whose readers are done, it may be another frame's.
  /// \threads  any. \pre  keeps_shapes()
  [[nodiscard]] std::uint64_t shape_of(FrameNumber frame) const {
    return shapes_[frame & (shapes_.size() - 1)].load(std::memory_order_relaxed);
  }

  /// Gives back the slot of a frame that was not written after all, and what was lent to it.
  void abandon_write(FrameNumber frame);

  // Lossy edges only; every call locks.

  /// Takes a slot for writing. Where none is free and the policy keeps the newest, the oldest of
  /// several frames that wait gives up its slot; the only one that waits is left to the readers.
  /// False: there is no such frame, or the policy has this frame lose.
  bool begin_write(FrameNumber frame);
  /// Offers the written frame to the readers. Where there is no room, the policy names a frame (the
  /// oldest waiting one, or this one) that loses its slot; on_drop is told, under the lock, so that
  /// no reader can meet a frame without a slot that still counts as alive. False: it is this one,
  /// by policy `error`; the caller fails it before readers see it.
  [[nodiscard]] bool end_write(FrameNumber frame);
  void begin_read(FrameNumber frame);  ///< From here on the frame cannot be dropped by this edge.
  [[nodiscard]] bool full() const;
  /// "edge 'a -> b' was full (2 frames), policy 'drop_oldest'"
  [[nodiscard]] Error was_full(Code code) const;

  const std::string name;  ///< "stage0 -> stage1"
  const int from;
  const std::vector<int> to;
  const std::vector<std::string> tensors;
  const std::vector<Type> types;
  const plan::FullPolicy policy;
  std::atomic<std::uint64_t> drops{0};
  std::atomic<std::uint64_t> allocations{0};  ///< Tensors of slots that were made after the start.
  std::function<void(Edge&, FrameNumber)> on_drop;  ///< Of a policy that drops.

 private:
  static constexpr std::uint32_t kNoSlot = UINT32_MAX;

  std::atomic<Slot*>& place_of(FrameNumber frame) {
    if (lossy()) return places_[slot_of_[frame & window_mask_]];
    return places_[power_of_two_ ? frame & capacity_mask_ : frame % place_count_];
  }
  Result<Slot*> make_slot(Blocks* own);
  Status make_own(Slot& slot) const;
  Status replace_all(Slot& slot);
  Status replace(std::vector<Tensor>& own, backend::Memory* memory);
  static Status add_mirrors(Slot& slot, std::size_t at, std::span<Blocks> mirrors);
  void set_to_bounds(Slot& slot) const;
  void free_slot(FrameNumber frame);
  void let_go(Slot& slot);
  [[nodiscard]] bool keeps_newest() const {
    return policy == plan::FullPolicy::kDropOldest || policy == plan::FullPolicy::kLatest;
  }
  void drop_oldest();  // \pre  one waits.
  void lose(FrameNumber frame);

  const int capacity_;
  int readers_ = 0;                        // Stages that end_read() each frame: readers, keepers.
  backend::Memory* memory_ = nullptr;      // Of the slots' own tensors; null: the host's.
  std::vector<backend::Memory*> mirrors_;  // Of each of Slot::mirrors; null: the host's.
  std::vector<std::vector<std::int64_t>> bounds_;  // Of each of `types`; none if no shape varies.
  bool power_of_two_ = false;
  FrameNumber capacity_mask_ = 0;
  std::size_t window_mask_ = 0;
  bool own_storage_ = false;
  std::size_t place_count_ = 0;                   // Places, each of which shows a slot.
  std::size_t most_slots_ = 0;                    // Places, and slots that results may keep.
  std::vector<std::unique_ptr<Slot>> slots_;      // All of them; the first `place_count_` at start.
  std::unique_ptr<std::atomic<Slot*>[]> places_;  // The slot in each place, where frames find it.
  std::vector<std::atomic<std::uint64_t>> shapes_;  // Where keeps_shapes(): frame & mask -> shape
  std::vector<Slot*> aside_;  // Slots that no place shows and no result keeps.

  mutable std::mutex mutex_;            // Of lossy edges: guards slot_of_ to waiting_.
  std::vector<std::uint32_t> slot_of_;  // frame & window_mask_ -> place
  std::vector<int> readers_left_;       // frame & window_mask_ -> readers that have not ended
  std::vector<std::uint32_t> free_;     // Places that no frame has.
  // Frames that are written and that no reader has begun, ascending; `capacity_` of them at most.
  std::vector<FrameNumber> waiting_;
};

}  // namespace penstock::pipeline
