// Gives out and evicts seats; promises them to those who wait in line.
#include "penstock/pipeline/streams.h"

#include <algorithm>
#include <chrono>

#include "penstock/base/option_name.h"
#include "penstock/pipeline/guarded.h"

namespace penstock::pipeline {
namespace {

Error too_many(int most) {
  return make_error(
      Code::kResourceExhausted, "it is not known, and the plan allows ", most,
      most == 1 ? std::string(" stream, which is stream 0; allow more in the plan "
                              "(streams: most)")
                : concat(" streams, which are all in use; end one (", OptionName::kEndStream,
                         "), or allow more, or that one is evicted, in the plan "
                         "(streams: most, evict)"));
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

Error Streams::busy() const {
  return make_error(Code::kDeadlineExceeded, "all ", limits_.most,
                    " streams are in use, and those that may be evicted have frames in flight; pop "
                    "them");
}

Result<Streams::Seat> Streams::admit(std::uint64_t stream, const Begin& begin) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = seat_of_.find(stream); found != seat_of_.end()) {
    if (seats_[found->second].wanted && !keep(found->second)) return busy();
    return found->second;
  }
  PENSTOCK_TRY(const Seat seat, guarded([&] { return take_seat(stream); }));
  Status begun = guarded([&]() -> Status {
    PENSTOCK_CHECK_OK(begin(seat, seats_[seat].steps));
    seat_of_.emplace(stream, seat);
    return {};
  });
  if (!begun) {
    offer(seat);
    return std::move(begun).error();
  }
  seats_[seat].stream = stream;
  seats_[seat].used = ++uses_;
  serve_line();
  return seat;
}

// Its stream is in line itself. Once it may have another seat, it stays in its own, and who was
// promised that one gets the other: else two of them could be promised each other's for ever.
bool Streams::keep(Seat seat) {
  const auto promised_it = [&](const Queued* queued) { return queued->promised_ == seat; };
  const auto has_other = [&](const Queued* queued) {
    return queued->stream_ == seats_[seat].stream && queued->has_seat();
  };
  const auto of_stream = std::ranges::find_if(line_, has_other);
  if (of_stream == line_.end()) return false;
  const Seat other = *std::exchange((*of_stream)->promised_, std::nullopt);
  seats_[seat].wanted = seats_[other].wanted = false;
  const auto waiting = std::ranges::find_if(line_, promised_it);
  if (waiting != line_.end()) (*waiting)->promised_.reset();
  offer(other);
  serve_line();
  return true;
}

// The promised one, or one that nobody in line waits for.
Result<Streams::Seat> Streams::take_seat(std::uint64_t stream) {
  for (Queued* queued : line_) {
    if (queued->stream_ != stream || !queued->has_seat()) continue;
    const Seat seat = *std::exchange(queued->promised_, std::nullopt);
    vacate(seat);
    return seat;
  }
  if (std::ranges::any_of(line_, [](const Queued* queued) { return !queued->promised_; }))
    return busy();
  PENSTOCK_CHECK_OK(free_a_seat());
  const Seat seat = free_.back();
  free_.pop_back();
  return seat;
}

Status Streams::free_a_seat() {
  if (!free_.empty() || add_seat()) return {};
  if (!limits_.evict || !many()) return too_many(limits_.most);
  const auto seat = least_missed(0);
  if (!seat || seats_[*seat].in_flight > 0) return busy();
  vacate(*seat);
  free_.push_back(*seat);
  return {};
}

bool Streams::add_seat() {
  if (seats_.size() >= static_cast<std::size_t>(limits_.most)) return false;
  free_.reserve(seats_.size() + 1);
  seats_.emplace_back();
  free_.push_back(static_cast<Seat>(seats_.size() - 1));
  return true;
}

// Of the streams but 0 and the one that wants a seat: one that is idle, else one that is not; of
// these the one that was used last longest ago.
std::optional<Streams::Seat> Streams::least_missed(std::uint64_t wanting) const {
  const auto missed = [&](Seat seat) {
    return std::pair(seats_[seat].in_flight > 0, seats_[seat].used);
  };
  std::optional<Seat> least;
  for (Seat seat = 1; seat < seats_.size(); ++seat) {
    const Taken& taken = seats_[seat];
    if (!taken.stream || taken.wanted || *taken.stream == wanting) continue;
    if (!least || missed(seat) < missed(*least)) least = seat;
  }
  return least;
}

void Streams::vacate(Seat seat) {
  Taken& taken = seats_[seat];
  taken.wanted = false;
  if (!taken.stream) return;
  seat_of_.erase(*taken.stream);
  taken.stream.reset();
  ++evicted_;
}

// The seat is idle, and promised to nobody: the first in line who waits for a busy one gets it.
void Streams::offer(Seat seat) {
  Taken& taken = seats_[seat];
  for (Queued* queued : line_) {
    if (queued->has_seat() || taken.stream == queued->stream_) continue;
    if (queued->promised_) seats_[*queued->promised_].wanted = false;
    queued->promised_ = seat;
    taken.wanted = true;
    break;
  }
  if (!taken.wanted && !taken.stream) free_.push_back(seat);
  if (!line_.empty()) changed_.notify_all();
}

void Streams::serve_line() {
  for (Queued* queued : line_) {
    if (queued->promised_) continue;
    queued->promised_ = least_missed(queued->stream_);
    if (queued->promised_) seats_[*queued->promised_].wanted = true;
  }
  if (!line_.empty()) changed_.notify_all();
}

Streams::Queued::Queued(std::shared_ptr<Streams> streams, std::uint64_t stream)
    : streams_(std::move(streams)), stream_(stream) {
  const std::scoped_lock lock(streams_->mutex_);
  wakes_ = streams_->wakes_;
  streams_->line_.push_back(this);
  streams_->serve_line();
}

Streams::Queued::~Queued() {
  const std::scoped_lock lock(streams_->mutex_);
  std::erase(streams_->line_, this);
  if (promised_) {
    Taken& promised = streams_->seats_[*promised_];
    promised.wanted = false;
    if (promised.in_flight == 0) streams_->offer(*promised_);
  }
  streams_->serve_line();
}

bool Streams::Queued::has_seat() const {
  return promised_ && streams_->seats_[*promised_].in_flight == 0;
}

// Another thread may have pushed a frame of the stream meanwhile.
bool Streams::Queued::may_go() const {
  const auto known = streams_->seat_of_.find(stream_);
  return has_seat() ||
         (known != streams_->seat_of_.end() && !streams_->seats_[known->second].wanted);
}

bool Streams::Queued::wait(Patience& patience) {
  std::unique_lock lock(streams_->mutex_);
  const auto goes_on = [&] { return may_go() || streams_->wakes_ != wakes_; };
  while (!goes_on()) {
    lock.unlock();  // Who is asked may look at the streams.
    if (patience.over()) return false;
    lock.lock();
    if (goes_on()) break;
    const std::int64_t look = patience.next_look();
    if (look == kNever) {
      streams_->changed_.wait(lock);
    } else {
      const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(look)};
      streams_->changed_.wait_until(lock, until);
    }
  }
  wakes_ = streams_->wakes_;
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
  Taken& seat = seats_[record.seat];
  if (--seat.in_flight > 0 || line_.empty()) return;
  seat.wanted || record.seat == 0 ? changed_.notify_all() : offer(record.seat);
}

void Streams::end(std::uint64_t stream) {
  const std::scoped_lock lock(mutex_);
  const auto found = seat_of_.find(stream);
  if (found == seat_of_.end()) return;
  const Seat seat = found->second;
  seats_[seat].stream.reset();
  seat_of_.erase(found);
  // Who was promised the seat has it now.
  seats_[seat].wanted ? changed_.notify_all() : offer(seat);
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

void Streams::add_evicted(std::uint64_t before) {
  const std::scoped_lock lock(mutex_);
  evicted_ += before;
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
  ++wakes_;
  changed_.notify_all();
}

}  // namespace penstock::pipeline
