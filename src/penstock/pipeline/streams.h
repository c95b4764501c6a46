// Streams: the independent sequences of frames that a pipeline knows, and the seat of each.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/pipeline/frame.h"
#include "penstock/pipeline/record.h"
#include "penstock/plan/plan.h"

namespace penstock::pipeline {

/// A stream that is known has a seat, a number from 0 to plan::Streams::most - 1, where its states
/// are kept: from its first frame until it ends or is evicted. Stream 0 has seat 0 always.
/// Where the plan has that stream alone, nothing is counted and no function locks.
/// \threads  all functions from any thread, but what says that it belongs to the pusher's turn.
class Streams {
 public:
  using Seat = std::uint32_t;

  explicit Streams(const plan::Streams& limits);

  [[nodiscard]] bool many() const { return limits_.most > 1; }
  [[nodiscard]] std::optional<Seat> find(std::uint64_t stream) const;

  /// The stream's seat; gives it one if it has none. In the pusher's turn.
  /// `begin`: called with a seat that the stream is given anew, and how many frames that had; none
  /// of them is in flight. It must not call back.
  /// \error kResourceExhausted  all seats are taken, and the plan evicts no stream.
  /// \error kDeadlineExceeded   none of those that may be evicted was idle until `deadline`, or
  ///                            until `ended()` at a call of wake_all() or before.
  /// Or what `begin` says: then the stream has no seat.
  using Begin = std::function<Status(Seat, FrameNumber)>;
  Result<Seat> admit(std::uint64_t stream, std::int64_t deadline, const Begin& begin,
                     const std::function<bool()>& ended);
  /// The stream of the seat was used: that of a frame is, and one that gets a seat. Those that were
  /// used last longest ago are evicted first.
  void use(Seat seat);
  /// Numbers the frame among those of its seat. In the pusher's turn.
  void push(FrameNumber frame, Record& record);
  /// The frame came out: every stage is done with it.
  void pop(const Record& record);
  /// Frees the stream's seat. In the pusher's turn. \pre  it is not 0, and no frame is in flight.
  void end(std::uint64_t stream);

  /// Of a pipeline of many streams: frames that the seat had, and those of them in flight.
  [[nodiscard]] FrameNumber steps(Seat seat) const;
  [[nodiscard]] FrameNumber in_flight(Seat seat) const;

  [[nodiscard]] std::uint64_t known() const;
  [[nodiscard]] std::uint64_t evicted() const;
  [[nodiscard]] std::vector<Seat> seats() const;            ///< That are taken.
  [[nodiscard]] std::vector<std::uint64_t> by_age() const;  ///< Known ones; the longest idle first.
  void wake_all();  ///< Who waits for a seat asks `ended()` again.

 private:
  struct Taken {
    std::optional<std::uint64_t> stream;  // None: free.
    FrameNumber steps = 0;
    FrameNumber behind = 0;  // The last frame's number, and one.
    FrameNumber in_flight = 0;
    std::uint64_t used = 0;  // The larger, the later it was used last.
  };

  Status free_a_seat(std::unique_lock<std::mutex>& lock, std::int64_t deadline,
                     const std::function<bool()>& ended);
  bool add_seat();
  bool evict();

  const plan::Streams limits_;
  mutable std::mutex mutex_;  // Guards all below.
  std::condition_variable idle_;
  std::vector<Taken> seats_;  // Grows up to limits_.most.
  std::vector<Seat> free_;    // Has room for all of them.
  std::unordered_map<std::uint64_t, Seat> seat_of_;
  std::uint64_t evicted_ = 0, uses_ = 0;
};

}  // namespace penstock::pipeline
