// Loans: the results that the caller holds, and what becomes of their slots when others want them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "penstock/pipeline/edge.h"
#include "penstock/pipeline/progress.h"

namespace penstock::pipeline {

/// A result is lent the slots of its frame. Where a later frame needs them, the result keeps them
/// and the edges get others in their place, for up to `most` results at a time: holding one stops
/// nobody. Slots that come back are used again, so that each is allocated once.
///
/// \threads  all functions from any thread; a frame's result is used by one thread at a time.
class Loans {
 public:
  /// `edges`: all that lead to the output. `window`: a power of two, over the number of frames in
  /// flight, `in_flight` at most.
  void configure(std::vector<Edge*> edges, Progress& sink, std::size_t window,
                 FrameNumber in_flight, int most);

  void lend(FrameNumber frame);
  void pass(FrameNumber frame);  ///< Instead of lend(): there is nothing to read.
  /// From now on callbacks may give back frames before others that were pushed earlier.
  void expect_callbacks() { calls_back_.store(true, std::memory_order_relaxed); }
  /// \pre  the frame is lent, and not given back.
  Slot& slot(Edge& edge, FrameNumber frame);
  void give_back(FrameNumber frame);
  /// Somebody waits until the frames before `least` are given back.
  void want_back(FrameNumber least);

 private:
  struct Kept {  // What a result keeps whose slots the edges have replaced by others.
    FrameNumber frame = 0;
    std::vector<Slot*> slots;  // Of each of edges_.
  };

  static FrameNumber lent(FrameNumber frame) { return 2 * frame + 1; }
  std::atomic<FrameNumber>& entry(FrameNumber frame) { return entries_[frame & mask_]; }
  void let_go(FrameNumber frame);
  void replace_wanted(FrameNumber popped);
  void replace_slots(FrameNumber before);    ///< Of frames lent before it whose slots are wanted.
  bool replace_slots_of(FrameNumber frame);  ///< Under the lock. False: there is no memory.
  Kept* find_kept(FrameNumber frame);        ///< Null: its slots are in their place.

  std::vector<Edge*> edges_;
  Progress* sink_ = nullptr;
  FrameNumber mask_ = 0;
  FrameNumber slots_ = 0;  // Places of that one of edges_ which has the fewest.
  std::size_t most_ = 0;   // Results that may keep replaced slots at a time.
  // By frame & mask_: lent(frame) while its slots are in their place, else another value.
  std::unique_ptr<std::atomic<FrameNumber>[]> entries_;
  std::atomic<bool> calls_back_{false};
  std::atomic<FrameNumber> wanted_{0};  // Somebody waits for the slots of frames before this one.
  std::mutex mutex_;                    // Guards `kept_`, and is held while slots are replaced.
  std::vector<Kept> kept_;              // The first `kept_count_`; those behind are room for more.
  std::size_t kept_count_ = 0;
};

}  // namespace penstock::pipeline
