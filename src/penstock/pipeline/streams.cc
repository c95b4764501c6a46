// Gives out and evicts seats.
#include "penstock/pipeline/streams.h"

#include <algorithm>
#include <chrono>

namespace penstock::pipeline {
namespace {

Error too_many(int most) {
  return make_error(Code::kResourceExhausted, "it is not known, and the plan allows ", most,
                    most == 1 ? " stream, which is stream 0" : " streams, which are all in use",
                    "; end one (end_stream), or allow more, or that one is evicted, in the plan "
                    "(streams: most, evict)");
}

}  // namespace

Streams::Streams(const plan::Streams& limits) : limits_(limits), seats_(1) {
  seats_.front().stream = 0;
  seat_of_.emplace(0, 0);
}

std::optional<Streams::Seat> Streams::find(std::uint64_t stream) const {
  const std::scoped_lock lock(mutex_);
  const auto found = seat_of_.find(stream);
  return found == seat_of_.end() ? std::nullopt : std::optional(found->second);
}

Result<Streams::Seat> Streams::admit(std::uint64_t stream, std::int64_t deadline,
                                     const Begin& begin, const std::function<bool()>& ended) {
  std::unique_lock lock(mutex_);
  if (const auto found = seat_of_.find(stream); found != seat_of_.end()) return found->second;
  try {
    PENSTOCK_CHECK_OK(free_a_seat(lock, deadline, ended));
    const Seat seat = free_.back();
    PENSTOCK_CHECK_OK(begin(seat, seats_[seat].steps));
    seat_of_.emplace(stream, seat);
    seats_[seat].stream = stream;
    seats_[seat].used = ++uses_;
    free_.pop_back();
    return seat;
  } catch (const std::bad_alloc&) {  // The seat is free as before.
    return out_of_memory();
  }
}

Status Streams::free_a_seat(std::unique_lock<std::mutex>& lock, std::int64_t deadline,
                            const std::function<bool()>& ended) {
  if (!free_.empty() || add_seat()) return {};
  if (!limits_.evict || !many()) return too_many(limits_.most);
  while (!evict()) {
    if (ended() || deadline == 0 || (deadline != kNever && now_ns() >= deadline)) {
      return make_error(Code::kDeadlineExceeded, "all ", limits_.most,
                        " streams are in use and have frames in flight; pop them");
    }
    if (deadline == kNever) {
      idle_.wait(lock);
    } else {
      idle_.wait_until(lock,
                       std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline)));
    }
  }
  return {};
}

bool Streams::add_seat() {
  if (seats_.size() >= static_cast<std::size_t>(limits_.most)) return false;
  free_.reserve(seats_.size() + 1);
  seats_.emplace_back();
  free_.push_back(static_cast<Seat>(seats_.size() - 1));
  return true;
}

// Of the streams but 0 that are idle, the one that was used last longest ago.
bool Streams::evict() {
  std::optional<Seat> longest;
  for (Seat seat = 1; seat < seats_.size(); ++seat) {
    if (seats_[seat].in_flight > 0) continue;
    if (!longest || seats_[seat].used < seats_[*longest].used) longest = seat;
  }
  if (!longest) return false;
  seat_of_.erase(*seats_[*longest].stream);
  seats_[*longest].stream.reset();
  free_.push_back(*longest);
  ++evicted_;
  return true;
}

void Streams::push(FrameNumber frame, Record& record) {
  if (!many()) {
    record.step = record.behind = frame;
    return;
  }
  const std::scoped_lock lock(mutex_);
  Taken& seat = seats_[record.seat];
  record.step = seat.steps++;
  record.behind = std::exchange(seat.behind, frame + 1);
  ++seat.in_flight;
  seat.used = ++uses_;
}

void Streams::use(Seat seat) {
  const std::scoped_lock lock(mutex_);
  seats_[seat].used = ++uses_;
}

void Streams::pop(const Record& record) {
  if (!many()) return;
  const std::scoped_lock lock(mutex_);
  if (--seats_[record.seat].in_flight == 0) idle_.notify_all();
}

void Streams::end(std::uint64_t stream) {
  const std::scoped_lock lock(mutex_);
  const auto found = seat_of_.find(stream);
  if (found == seat_of_.end()) return;
  free_.push_back(found->second);
  seats_[found->second].stream.reset();
  seat_of_.erase(found);
}

FrameNumber Streams::steps(Seat seat) const {
  const std::scoped_lock lock(mutex_);
  return seats_[seat].steps;
}

FrameNumber Streams::in_flight(Seat seat) const {
  const std::scoped_lock lock(mutex_);
  return seats_[seat].in_flight;
}

std::uint64_t Streams::known() const {
  const std::scoped_lock lock(mutex_);
  return seat_of_.size();
}

std::uint64_t Streams::evicted() const {
  const std::scoped_lock lock(mutex_);
  return evicted_;
}

std::vector<std::uint64_t> Streams::by_age() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::uint64_t> streams;
  for (const auto& [stream, seat] : seat_of_) streams.push_back(stream);
  std::ranges::sort(streams, {}, [&](auto stream) { return seats_[seat_of_.at(stream)].used; });
  return streams;
}

std::vector<Streams::Seat> Streams::seats() const {
  std::vector<Seat> taken;
  const std::scoped_lock lock(mutex_);
  for (const auto& [stream, seat] : seat_of_) taken.push_back(seat);
  return taken;
}

void Streams::wake_all() {
  const std::scoped_lock lock(mutex_);
  idle_.notify_all();
}

}  // namespace penstock::pipeline
