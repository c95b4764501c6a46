// Lane: a call in flight, or the room for one; Lanes: those of one instance.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "penstock/pipeline/frame.h"
#include "penstock/pipeline/stage_call.h"

namespace penstock::pipeline {

struct Lane {
  std::unique_ptr<StageCall> call;
  std::vector<FrameNumber> frames;  // That the worker took for it, ascending; also lost ones.
  std::size_t bound = 0;            // How many of `frames` the call computes.
  // Of each frame that is computed, in the order of bind(): when its inputs were there.
  std::vector<std::int64_t> ready_ns;
  std::int64_t start_ns = 0;  // When the call began.
  bool sampled = false;       // The phases of the call are timed one by one.
  bool begun = false;         // The frames came back (Returns), and hold their slots already.
  Edge* again = nullptr;      // Not null: only what was lost of this edge is made again.

  /// It is through with its frames.
  void forget() {
    begun = false;
    again = nullptr;
  }
};

/// A ring: the calls in flight, in the order of their starts, then the lanes that are free.
/// \threads  the worker's own; front(), begin(), end() and size() also others.
class Lanes {
 public:
  /// \pre  none was made yet
  void make(std::size_t count) { lanes_.resize(count); }
  void clear() { lanes_.clear(); }
  [[nodiscard]] bool empty() const { return lanes_.empty(); }
  [[nodiscard]] std::size_t size() const { return lanes_.size(); }
  [[nodiscard]] std::size_t in_flight() const { return in_flight_; }  ///< Calls.

  Lane& oldest() { return lanes_[first_]; }  ///< \pre  a call is in flight.
  Lane& next() { return at(in_flight_); }    ///< \pre  a lane is free.
  /// The i-th of those in flight, the oldest is 0; in_flight(): the first one that is free.
  Lane& at(std::size_t i) {
    const std::size_t position = first_ + i;  // No division: this is on every frame's way.
    return lanes_[position < lanes_.size() ? position : position - lanes_.size()];
  }
  /// Where calls do not go on by themselves: the only one. Any thread.
  Lane& front() { return lanes_.front(); }

  void begin_next() { ++in_flight_; }
  void end_oldest() {
    first_ = first_ + 1 == lanes_.size() ? 0 : first_ + 1;
    --in_flight_;
  }
  void end_all() { in_flight_ = 0; }

  auto begin() { return lanes_.begin(); }
  auto end() { return lanes_.end(); }
  [[nodiscard]] auto begin() const { return lanes_.begin(); }
  [[nodiscard]] auto end() const { return lanes_.end(); }

 private:
  std::vector<Lane> lanes_;
  std::size_t first_ = 0;      // Position of the oldest call in flight.
  std::size_t in_flight_ = 0;  // Calls in flight.
};

}  // namespace penstock::pipeline
