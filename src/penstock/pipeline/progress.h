// Progress: how far one part of the pipeline has come, and who waits for it.
// A part is the source, a stage or the sink. The whole synchronisation between threads is made of
// Progress objects.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "penstock/base/cache_line.h"
#include "penstock/pipeline/frame.h"
#include "penstock/pipeline/parker.h"

namespace penstock::pipeline {

/// Frames [0, done()) are complete. Completed in order by one thread, or out of order by several.
///
/// Waiting: every pair (Progress, thread that may wait for it) has a Cell, registered before the
/// threads start. A sleeper writes the count it waits for into its cell, looks again, sleeps; who
/// completes a frame stores the count, then looks at the cells: among many, at those marked as
/// waiting. All these accesses are sequentially consistent, so one of the two sees the other.
class Progress {
 public:
  class Cell {
   public:
    /// From here on it is woken once `target` frames are complete.
    void await(FrameNumber target) {
      if (marks_ != nullptr) marks_->fetch_or(mark_, std::memory_order_seq_cst);
      target_.store(target, std::memory_order_seq_cst);
    }
    void withdraw() {
      target_.store(UINT64_MAX, std::memory_order_seq_cst);
      if (marks_ != nullptr) marks_->fetch_and(~mark_, std::memory_order_relaxed);
    }
    [[nodiscard]] Parker& parker() const { return *parker_; }

   private:
    friend class Progress;
    alignas(kCacheLine) std::atomic<FrameNumber> target_{UINT64_MAX};
    Parker* parker_ = nullptr;
    std::atomic<std::uint64_t>* marks_ = nullptr;  // Of its group; null: it is alone there.
    std::uint64_t mark_ = 0;
  };

  /// `window`: a power of two, at least the largest number of frames between the oldest incomplete
  /// one and the newest complete one. `in_order`: complete() is called with 0, 1, 2, ...
  void configure(std::size_t window, bool in_order) {
    in_order_ = in_order;
    if (in_order) return;
    mask_ = window - 1;
    marks_ = std::make_unique<std::atomic<FrameNumber>[]>(window);
  }

  /// Adds the cells of one waiting part: all replicas of a stage wait for the same frames, so one
  /// is woken for each frame. Returns the cells' addresses in the order of `parkers`.
  std::vector<Cell*> add_waiters(const std::vector<Parker*>& parkers);

  /// Frames before `first` are none of this one's. \pre  nobody waits and nothing is complete.
  void begin_at(FrameNumber first) { done_.store(first, std::memory_order_seq_cst); }

  [[nodiscard]] FrameNumber done() const { return done_.load(std::memory_order_seq_cst); }

  void complete(FrameNumber frame) {
    if (in_order_) {
      done_.store(frame + 1, std::memory_order_seq_cst);
      notify(frame + 1, 1);
      return;
    }
    complete_out_of_order(frame);
  }

  /// Wakes everybody, whatever they wait for: the pipeline's state changed.
  void wake_all();

 private:
  static constexpr std::size_t kMarks = 64;  // Of a word.

  struct Group {
    std::vector<std::unique_ptr<Cell>> cells;
    // A bit for each cell: set while it waits. Completing a frame does not look at all cells.
    std::unique_ptr<std::atomic<std::uint64_t>[]> marks;
  };

  void complete_out_of_order(FrameNumber frame);

  void notify(FrameNumber done, FrameNumber advanced) {
    for (auto& group : groups_) {
      if (group.cells.size() == 1) {
        wake_if_due(*group.cells.front(), done);
      } else {
        wake_some(group, done, advanced);
      }
    }
  }

  static bool wake_if_due(Cell& cell, FrameNumber done) {
    if (cell.target_.load(std::memory_order_seq_cst) > done) return false;
    if (cell.target_.exchange(UINT64_MAX, std::memory_order_seq_cst) == UINT64_MAX) return false;
    cell.parker_->wake();
    return true;
  }

  static void wake_some(Group& group, FrameNumber done, FrameNumber count);

  alignas(kCacheLine) std::atomic<FrameNumber> done_{0};
  alignas(kCacheLine) bool in_order_ = true;
  std::size_t mask_ = 0;
  std::unique_ptr<std::atomic<FrameNumber>[]> marks_;  // frame & mask -> frame + 1 once complete
  std::vector<Group> groups_;
};

}  // namespace penstock::pipeline
