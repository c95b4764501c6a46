// Streams: the independent sequences of frames that a pipeline knows, and the seat of each.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/pipeline/frame.h"
#include "penstock/pipeline/record.h"
#include "penstock/pipeline/timeout.h"
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

  /// The stream's seat; gives it one if it has none. In the pusher's turn. Waits for nobody.
  /// `begin`: called with a seat that the stream is given anew, and how many frames that had; none
  /// of them is in flight. It must not call back.
  /// \error kResourceExhausted  all seats are taken, and the plan evicts no stream.
  /// \error kDeadlineExceeded   busy(): each stream that may be evicted has frames in flight, or
  /// its
  ///                            seat is promised to somebody in line. See Queued.
  /// Or what `begin` says: then the stream has no seat.
  using Begin = std::function<Status(Seat, FrameNumber)>;
  Result<Seat> admit(std::uint64_t stream, const Begin& begin);
  [[nodiscard]] Error busy() const;
  class Queued;
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
  void add_evicted(std::uint64_t before);         ///< Those of the plan that this one's replaces.
  [[nodiscard]] std::vector<Seat> seats() const;  ///< That are taken.
  [[nodiscard]] std::vector<std::uint64_t> by_age() const;  ///< Known ones; the longest idle first.
  void wake_all();  ///< Who waits for a seat goes on, though it has none.

 private:
  struct Taken {
    std::optional<std::uint64_t> stream;  // None: free.
    FrameNumber steps = 0;
    FrameNumber behind = 0;  // The last frame's number, and one.
    FrameNumber in_flight = 0;
    std::uint64_t used = 0;  // The larger, the later it was used last.
    bool wanted = false;     // Somebody in line gets it: its stream has no more frames until then.
  };

  Result<Seat> take_seat(std::uint64_t stream);
  Status free_a_seat();
  bool add_seat();
  [[nodiscard]] std::optional<Seat> least_missed(std::uint64_t wanting) const;
  bool keep(Seat seat);  ///< Of a known stream: it is promised to nobody any more. False: it is.
  void vacate(Seat seat);
  void offer(Seat seat);
  void serve_line();

  const plan::Streams limits_;
  mutable std::mutex mutex_;  // Guards all below.
  std::condition_variable changed_;
  std::vector<Queued*> line_;  // Who waits for a seat, first come first.
  std::uint64_t wakes_ = 0;    // Calls of wake_all().
  std::vector<Taken> seats_;   // Grows up to limits_.most.
  std::vector<Seat> free_;     // Has room for all of them.
  std::unordered_map<std::uint64_t, Seat> seat_of_;
  std::uint64_t evicted_ = 0, uses_ = 0;
};

/// A frame's place in the line for a seat, from construction to destruction. It is promised the
/// seat of the stream that is missed least: an idle one, else the one that was used last longest
/// ago. That stream then waits in line itself for its next frame, so that no stream starves
/// another.
/// \threads  of one thread, outside the pusher's turn: frames of other streams go on meanwhile.
class Streams::Queued {
 public:
  Queued(std::shared_ptr<Streams> streams, std::uint64_t stream);
  Queued(const Queued&) = delete;
  Queued& operator=(const Queued&) = delete;
  ~Queued();

  /// Until admit() finds a seat for the stream, as far as others leave it, or wake_all() was called
  /// since the wait before. False: the patience is over.
  bool wait(Patience& patience);
  [[nodiscard]] Error busy() const { return streams_->busy(); }
  /// Whether it waits for a seat of these.
  [[nodiscard]] bool is_of(const Streams& streams) const { return streams_.get() == &streams; }

 private:
  friend class Streams;
  [[nodiscard]] bool has_seat() const;  // Which is idle. Under the lock, as the next.
  [[nodiscard]] bool may_go() const;

  const std::shared_ptr<Streams> streams_;
  const std::uint64_t stream_;
  // Guarded by the streams' lock.
  std::optional<Seat> promised_;
  std::uint64_t wakes_;  // Calls of wake_all() that it knows.
};

}  // namespace penstock::pipeline
