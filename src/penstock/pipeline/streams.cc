// Gives out and evicts seats; resets, ends, saves and restores streams between two frames.
#include "penstock/pipeline/streams.h"

#include <algorithm>
#include <chrono>

#include "penstock/pipeline/generations.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/pipeline/ports.h"

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

FrameNumber State::steps(Streams::Seat seat) const {
  return streams->many() ? streams->steps(seat) : source.done();
}

FrameNumber State::not_popped(Streams::Seat seat) const {
  return streams->many() ? streams->in_flight(seat) : source.done() - totals->all();
}

Status State::reset_states(Streams::Seat seat, FrameNumber step) {
  for (auto& edge : states) PENSTOCK_CHECK_OK(edge->reset(seat, step));
  return {};
}

namespace {

// Every stage is done with the stream's frames, which also makes visible what they wrote.
Status check_idle(const State& state, std::uint64_t stream, Streams::Seat seat, const char* what) {
  const FrameNumber frames = state.not_popped(seat);
  if (frames == 0) return {};
  return make_error(Code::kFailedPrecondition, frames, " frames are in flight; pop them first")
      .within({Where::kStream, stream})
      .within(what);
}

Error placed(Error error, std::uint64_t stream, const char* what) {
  return std::move(error).within({Where::kStream, stream}).within(what);
}

std::string state_names(const State& state) {
  return join(state.states, ", ", [](const auto& edge) { return "'" + edge->to + "'"; });
}

// A value for each state, in their order.
Result<std::vector<const Tensor*>> match_states(const State& state, const Named& values) {
  std::vector<const Tensor*> ordered(state.states.size());
  for (const auto& [name, value] : values) {
    const auto found =
        std::ranges::find(state.states, name, [](const auto& edge) { return edge->to; });
    if (found == state.states.end()) {
      return invalid_argument("no state '", name, "'; ",
                              state.states.empty() ? "there are none" : "the states are ",
                              state_names(state));
    }
    auto& place = ordered[static_cast<std::size_t>(found - state.states.begin())];
    if (place != nullptr) return invalid_argument("state '", name, "' is given twice");
    if (Status fits = check_given(state.plan.find_tensor(name)->type, value); !fits)
      return std::move(fits).error().within(concat("state '", name, "'"));
    place = &value;
  }
  for (std::size_t s = 0; s < ordered.size(); ++s) {
    if (ordered[s] != nullptr) continue;
    return invalid_argument("state '", state.states[s]->to, "' is missing; the states are ",
                            state_names(state));
  }
  return ordered;
}

}  // namespace

Status Pipeline::reset_states() {
  return guarded([&]() -> Status {
    PENSTOCK_CHECK_OK(generations_->take_turn_between_frames("reset_states"));
    const TurnGuard guard(&generations_->turns->pusher);
    State& state = *generations_->pushing;
    if (state.ending.closed()) return state.ending.error();
    const FrameNumber next = state.source.done();
    const FrameNumber popped = state.totals->all();
    const bool done = std::ranges::all_of(
        state.stages, [&](const auto& stage) { return stage->progress.done() == next; });
    if (popped != next || !done) {
      return make_error(Code::kFailedPrecondition, "reset_states: ", next - popped,
                        " frames are in flight; pop them first");
    }
    for (const auto seat : state.streams->seats()) {
      Status reset = state.reset_states(seat, state.steps(seat));
      if (!reset) return std::move(reset).error().within("reset_states");
    }
    return {};
  });
}

Status Pipeline::reset_stream(std::uint64_t stream) {
  return guarded([&]() -> Status {
    PENSTOCK_CHECK_OK(generations_->take_turn_between_frames("reset_stream"));
    const TurnGuard guard(&generations_->turns->pusher);
    State& state = *generations_->pushing;
    if (state.ending.closed()) return state.ending.error();
    const auto seat = state.streams->find(stream);
    if (!seat) return {};
    PENSTOCK_CHECK_OK(check_idle(state, stream, *seat, "reset_stream"));
    Status reset = state.reset_states(*seat, state.steps(*seat));
    if (!reset) return placed(std::move(reset).error(), stream, "reset_stream");
    return {};
  });
}

Status Pipeline::end_stream(std::uint64_t stream) {
  return guarded([&]() -> Status {
    PENSTOCK_CHECK_OK(generations_->take_turn_between_frames("end_stream"));
    const TurnGuard guard(&generations_->turns->pusher);
    State& state = *generations_->pushing;
    const auto seat = state.streams->find(stream);
    if (!seat) return {};
    PENSTOCK_CHECK_OK(check_idle(state, stream, *seat, "end_stream"));
    if (stream != 0) {
      state.streams->end(stream);
      return {};
    }
    Status reset = state.reset_states(*seat, state.steps(*seat));
    if (!reset) return placed(std::move(reset).error(), stream, "end_stream");
    return {};
  });
}

Result<Named> Pipeline::save_stream(std::uint64_t stream) {
  return guarded([&]() -> Result<Named> {
    PENSTOCK_CHECK_OK(generations_->take_turn_between_frames("save_stream"));
    const TurnGuard guard(&generations_->turns->pusher);
    State& state = *generations_->pushing;
    const auto seat = state.streams->find(stream);
    if (!seat) {
      return make_error(Code::kNotFound,
                        "it is not known: it had no frame yet, has ended or was evicted")
          .within({Where::kStream, stream})
          .within("save_stream");
    }
    PENSTOCK_CHECK_OK(check_idle(state, stream, *seat, "save_stream"));
    Named saved;
    for (const auto& edge : state.states) {
      auto value = edge->saved(*seat, state.steps(*seat));
      if (!value) return placed(std::move(value).error(), stream, "save_stream");
      saved.emplace_back(edge->to, *std::move(value));
    }
    return saved;
  });
}

Status Pipeline::restore_stream(std::uint64_t stream, const Named& states) {
  return guarded([&]() -> Status {
    PENSTOCK_CHECK_OK(generations_->take_turn_between_frames("restore_stream"));
    const TurnGuard guard(&generations_->turns->pusher);
    State& state = *generations_->pushing;
    if (state.ending.closed()) return state.ending.error();
    auto values = match_states(state, states);
    if (!values)
      return std::move(values).error().within({Where::kStream, stream}).within("restore_stream");
    const auto set_all = [&](Streams::Seat seat, FrameNumber step) -> Status {
      for (std::size_t s = 0; s < state.states.size(); ++s) {
        PENSTOCK_CHECK_OK(state.states[s]->set(seat, step, *(*values)[s]));
      }
      return {};
    };
    const bool known = state.streams->find(stream).has_value();
    // One that gets a seat with it: where a value cannot be set, it keeps none of another stream's.
    const auto seat = state.streams->admit(stream, 0, set_all, [] { return false; });
    if (!seat) return placed(seat.error(), stream, "restore_stream");
    if (!known) return {};
    PENSTOCK_CHECK_OK(check_idle(state, stream, *seat, "restore_stream"));
    Status set = set_all(*seat, state.steps(*seat));
    if (!set) return placed(std::move(set).error(), stream, "restore_stream");
    state.streams->use(*seat);
    return {};
  });
}

}  // namespace penstock::pipeline
