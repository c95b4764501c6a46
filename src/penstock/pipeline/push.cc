// Push: a frame waits for its turn, for room and for its stream, and becomes visible to the stages.
#include <algorithm>

#include "penstock/base/option_name.h"
#include "penstock/base/words.h"
#include "penstock/pipeline/generations.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/pipeline/ports.h"
#include "penstock/pipeline/timeout.h"

namespace penstock::pipeline {
namespace {

// Waits until `wait.progress` reaches `least`. False: the patience is over, the pipeline ended, or
// the turn is to be handed over.
bool await(State& state, Wait& wait, FrameNumber least, Patience& patience) {
  const auto ended = [&] {
    return state.ending.cancelled() || state.ending.is_cut() || state.turns->wanted();
  };
  const bool of_caller = wait.progress == &state.sink;
  const auto is_there = [&] { return (wait.seen = wait.progress->done()) >= least; };
  while (wait.seen < least) {
    if (is_there()) return true;
    if (ended()) return false;
    // A result that came out meanwhile, and is held until the next look, gets a slot of its own.
    // Also for who does not wait: nobody else may ask for it.
    if (of_caller) state.loans.want_back(least);
    if (patience.over()) return is_there();
    const std::int64_t look = of_caller ? patience.soon() : patience.next_look();
    sleep_until(wait, least, {state.wake_batch, Batch::kCallerPatience}, look, ended);
  }
  return true;
}

// Takes the pusher's turn.
Status begin_push(Generations& generations, const char* what, std::chrono::nanoseconds timeout,
                  Patience& patience, Priority priority) {
  const auto over = [&] { return generations.closed_by().has_value() || patience.over(); };
  const auto next_look = [&] { return patience.next_look(); };
  if (generations.turns->pusher.begin(priority == Priority::kHigh, over, next_look)) return {};
  if (auto error = generations.closed_by()) return *std::move(error);
  return timed_out(concat(what, ": no turn"), timeout,
                   generations.replacing()
                       ? "replace() changes the plan, and lets no frame in before that is done; "
                         "give a longer timeout, or try again"
                       : "another thread was pushing");
}

// Waits for room for the next frame; the caller has the pusher's turn.
Status make_room(State& state, std::chrono::nanoseconds timeout, Patience& patience) {
  auto& caller = state.pusher;
  const FrameNumber frame = state.source.done();
  const auto full = [&](const std::string& what) -> Status {
    if (state.ending.cancelled()) return state.ending.error();
    return timed_out("push: no room", timeout, what);
  };
  const auto reach = [&](Wait& wait, FrameNumber least) {
    return await(state, wait, least, patience);
  };
  if (frame >= state.in_flight_limit &&
      !reach(caller.waits[0], frame - state.in_flight_limit + 1)) {
    const bool all_are_held = state.totals->all() >= frame;
    return full(concat("at most ", counted(state.in_flight_limit, "frame"), " may be in flight; ",
                       all_are_held
                           ? concat("all came out and are held: let go of one, or ",
                                    in_words_of_caller("allow more (max_held)", "take() it"))
                           : "pop one"));
  }
  for (std::size_t i = 1; i < caller.waits.size(); ++i) {
    const FrameNumber capacity = state.input_capacities[i - 1];
    if (capacity == 0 || frame < capacity) continue;
    if (!reach(caller.waits[i], frame - capacity + 1)) {
      return full(concat("the input edge holds ", counted(capacity, "frame"), ", its capacity"));
    }
  }
  return {};
}

// What a push is told that finds no seat for its stream.
Error no_seat(Error error, std::uint64_t stream, std::chrono::nanoseconds timeout) {
  error = std::move(error).within({Where::kStream, stream});
  if (error.code != Code::kDeadlineExceeded) return std::move(error).within("push");
  return std::move(error).within({Where::kTimeoutNs, timeout.count()}).within("push: no room");
}

// The seat of the frame's stream; the caller has the pusher's turn.
Result<Streams::Seat> admit(State& state, std::uint64_t stream) {
  if (stream == 0) return Streams::Seat{0};
  return state.streams->admit(stream, [&](Streams::Seat given, FrameNumber step) {
    return state.reset_states(given, step);
  });
}

// Slots of lossy input edges are taken at push. False: none is free, since readers hold them all.
bool take_slots(State& state, FrameNumber frame) {
  for (std::size_t e = 0; e < state.input_edges.size(); ++e) {
    if (!state.input_edges[e]->lossy() || state.input_edges[e]->begin_write(frame)) continue;
    while (e-- > 0) {
      if (state.input_edges[e]->lossy()) state.input_edges[e]->abandon_write(frame);
    }
    return false;
  }
  return true;
}

// The frame is not pushed after all: its slots keep nothing of the caller's.
void give_slots_back(State& state, FrameNumber frame) {
  for (Edge* edge : state.input_edges) edge->abandon_write(frame);
}

// The frame's slots show the caller's tensors.
Status lend(State& state, FrameNumber frame, std::span<const Tensor> inputs, bool has_slots) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Place& place = state.input_places[i];
    // A stage that feeds a state reads the other edges all the same.
    if (place.edge == nullptr || (!has_slots && place.edge->lossy())) continue;
    Slot& slot = place.edge->slot(frame);
    PENSTOCK_CHECK_OK(place.edge->renew(slot));
    slot.lent[place.tensor] = inputs[i];
    slot.now[place.tensor] = &slot.lent[place.tensor];
  }
  return {};
}

// The caller gets the tensors of the frame's slots.
Status show_slots(State& state, FrameNumber frame) {
  for (std::size_t i = 0; i < state.acquired.size(); ++i) {
    const Place& place = state.input_places[i];
    if (place.edge == nullptr) {
      state.acquired[i] = storage_for(state.plan.inputs[i].type);
      continue;
    }
    Slot& slot = place.edge->slot(frame);
    PENSTOCK_CHECK_OK(place.edge->renew(slot));
    place.edge->ensure_own(slot);
    state.acquired[i] = slot.own[place.tensor];
  }
  return {};
}

// The first of the inputs that the edge takes.
const std::string& input_of(const State& state, const Edge* edge) {
  const auto place = std::ranges::find(state.input_places, edge, &Place::edge);
  return state.plan.inputs[static_cast<std::size_t>(place - state.input_places.begin())].name;
}

// Before anything of the frame is written: an edge with policy `error` refuses it here.
Status check_error_policy(State& state) {
  for (const Edge* edge : state.input_edges) {
    if (edge->policy == plan::FullPolicy::kError && edge->full()) {
      return make_error(Code::kResourceExhausted, "edge '", edge->name, "' is full (",
                        counted(edge->capacity(), "frame"), ") and its policy is 'error'")
          .within({Where::kInput, input_of(state, edge)})
          .within("push");
    }
  }
  return {};
}

std::int64_t frame_deadline(const State& state, const FrameOptions& options, std::int64_t pushed) {
  if (options.deadline) return options.deadline->time_since_epoch().count();
  if (!state.plan.max_age) return kNever;
  const auto age = std::chrono::nanoseconds(*state.plan.max_age).count();
  return age > kNever - pushed ? kNever : pushed + age;
}

// Makes the frame visible to the stages, or refuses it because the pipeline was closed meanwhile.
Result<FrameNumber> commit(State& state, FrameNumber frame, const FrameOptions& options,
                           Streams::Seat seat, bool has_slots) {
  std::function<void(Output)> done;
  try {
    if (options.done) {
      done = options.done;
      state.delivery.make_room(seat);
    }
  } catch (const std::bad_alloc&) {
    give_slots_back(state, frame);
    return out_of_memory();
  } catch (...) {  // The caller's function could not be copied.
    give_slots_back(state, frame);
    throw;
  }
  const std::scoped_lock lock(state.ending.commit);
  if (state.ending.closed()) {
    give_slots_back(state, frame);
    return state.ending.error();
  }
  const std::int64_t now = now_ns();
  auto& record = state.record(frame);
  try {
    record.reset(options, seat, now, frame_deadline(state, options, now));
  } catch (const std::bad_alloc&) {
    give_slots_back(state, frame);
    return out_of_memory();
  }
  state.streams->push(frame, record);
  if (done) {
    record.call_back_after(static_cast<int>(state.stages.size()));
    state.delivery.expect(frame, std::move(done), options);
  }
  state.source_ready_ns[frame & state.window_mask] = now;
  for (Edge* edge : state.input_edges) {
    if (edge->keeps_shapes() && (has_slots || !edge->lossy())) edge->note_shape(frame);
    if (!edge->lossy()) {
      edge->begin_readers(frame);
    } else if (has_slots) {
      static_cast<void>(edge->end_write(frame));  // By policy `error` there was room before.
    } else {
      edge->drops.fetch_add(1, std::memory_order_relaxed);
      edge->on_drop(*edge, frame);
    }
  }
  state.source.complete(frame);
  return frame;
}

// One try, in the pusher's turn, which goes on where the frame is admitted. Nothing: another try is
// needed, with a place in line for a seat where the stream has none.
Result<std::optional<Streams::Seat>> try_begin(Generations& generations,
                                               std::chrono::nanoseconds timeout,
                                               const FrameOptions& options, Patience& patience,
                                               std::optional<Streams::Queued>& queued) {
  TurnGuard guard(&generations.turns->pusher);
  State& state = *generations.pushing;
  if (state.ending.closed()) return state.ending.error();
  if (options.done) PENSTOCK_CHECK_OK(state.delivery.start(state));
  PENSTOCK_CHECK_OK(check_error_policy(state));
  const Status room = make_room(state, timeout, patience);
  if (generations.turns->hand_over()) {
    guard.keep();
    return std::optional<Streams::Seat>();
  }
  if (room && patience.over_at_last()) return make_error(Code::kCancelled, "given up");
  // Again: a call that hangs may still read the slot that seems free.
  if (state.ending.closed()) return state.ending.error();
  if (!room) return room.error();
  auto seat = admit(state, options.stream);
  if (seat) {
    guard.keep();
    return std::optional(*seat);
  }
  if (seat.error().code != Code::kDeadlineExceeded || patience.deadline() == 0)
    return no_seat(std::move(seat).error(), options.stream, timeout);
  if (!queued || !queued->is_of(*state.streams)) {
    queued.emplace(state.streams, options.stream);
    // The seat comes free as its frames come out: no call waits for more to go with them.
    if (state.source.done() > 0) state.hurry(state.source.done() - 1);
  }
  return std::optional<Streams::Seat>();
}

}  // namespace

Result<Pipeline::Admitted> Pipeline::begin_frame(const char* what, std::chrono::nanoseconds timeout,
                                                 const FrameOptions& options) {
  if (generations_->acquirer.load() == std::this_thread::get_id()) {
    return make_error(Code::kFailedPrecondition, what,
                      ": an acquired input is not pushed yet; call push_acquired first");
  }
  Patience patience(deadline_of(timeout), options.still_wanted);
  const auto told = [&](Error error) -> Error {
    if (!patience.given_up()) return error;
    return make_error(Code::kCancelled, what, ": its caller has given it up");
  };
  std::optional<Streams::Queued> queued;
  for (;;) {
    Status turn = begin_push(*generations_, what, timeout, patience, options.priority);
    if (!turn) return told(std::move(turn).error());
    auto seat = try_begin(*generations_, timeout, options, patience, queued);
    if (!seat) return told(std::move(seat).error());
    if (*seat) return Admitted{generations_->pushing.get(), **seat};
    if (queued && !queued->wait(patience))
      return told(no_seat(queued->busy(), options.stream, timeout));
  }
}

Result<FrameNumber> Pipeline::push(std::span<const Tensor> inputs, std::chrono::nanoseconds timeout,
                                   const FrameOptions& options) {
  return guarded([&]() -> Result<FrameNumber> {
    const auto& wanted = generations_->inputs;
    if (inputs.size() != wanted.size()) {
      return invalid_argument("push: expected ", counted(wanted.size(), "input"), ", found ",
                              inputs.size());
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (Status fits = check_given(wanted[i].type, inputs[i]); !fits) {
        return std::move(fits).error().within({Where::kInput, wanted[i].name}).within("push");
      }
    }
    PENSTOCK_TRY(const auto place, begin_frame("push", timeout, options));
    State& state = *place.state;
    const TurnGuard guard(&state.turns->pusher);
    const FrameNumber frame = state.source.done();
    const bool has_slots = take_slots(state, frame);
    if (Status lent = guarded([&] { return lend(state, frame, inputs, has_slots); }); !lent) {
      give_slots_back(state, frame);
      return std::move(lent).error();
    }
    return commit(state, frame, options, place.seat, has_slots);
  });
}

Result<FrameNumber> Pipeline::push(const Named& inputs, std::chrono::nanoseconds timeout,
                                   const FrameOptions& options) {
  return guarded([&]() -> Result<FrameNumber> {
    const auto& wanted = generations_->inputs;
    std::vector<Tensor> ordered(wanted.size());
    std::vector<bool> given(wanted.size(), false);
    for (const auto& [name, tensor] : inputs) {
      const auto found = std::ranges::find(wanted, name, &plan::TensorInfo::name);
      if (found == wanted.end() && generations_->bound.contains(name)) {
        Status bound = plan::check_bound(generations_->bound, name, tensor);
        if (!bound) return std::move(bound).error().within("push");
        continue;
      }
      if (found == wanted.end())
        return invalid_argument("push: no input '", name, "'; the inputs are ",
                                quoted_names(wanted));
      const auto i = static_cast<std::size_t>(found - wanted.begin());
      if (given[i]) return invalid_argument("push: input '", name, "' is given twice");
      given[i] = true;
      ordered[i] = tensor;
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!given[i])
        return invalid_argument("push: input '", wanted[i].name, "' is missing; the inputs are ",
                                quoted_names(wanted));
    }
    return push(ordered, timeout, options);
  });
}

Result<std::span<Tensor>> Pipeline::acquire_input(std::chrono::nanoseconds timeout,
                                                  Priority priority) {
  return guarded([&]() -> Result<std::span<Tensor>> {
    PENSTOCK_TRY(const auto given, begin_frame("acquire_input", timeout, {.priority = priority}));
    State& state = *given.state;
    TurnGuard guard(&state.turns->pusher);
    const FrameNumber frame = state.source.done();
    if (!take_slots(state, frame)) {
      return make_error(Code::kResourceExhausted,
                        "acquire_input: the stages hold every slot of the input edge");
    }
    if (Status shown = guarded([&] { return show_slots(state, frame); }); !shown) {
      for (auto& tensor : state.acquired) tensor = Tensor();
      give_slots_back(state, frame);
      return std::move(shown).error();
    }
    generations_->acquirer = std::this_thread::get_id();
    guard.keep();  // push_acquired ends it.
    return std::span<Tensor>(state.acquired);
  });
}

void Pipeline::release_input() {
  if (generations_->acquirer.exchange(std::thread::id()) == std::thread::id()) return;
  State& state = *generations_->pushing;
  const TurnGuard guard(&state.turns->pusher);
  for (auto& tensor : state.acquired) tensor = Tensor();
  give_slots_back(state, state.source.done());
}

Result<FrameNumber> Pipeline::push_acquired(const FrameOptions& options) {
  return guarded([&]() -> Result<FrameNumber> {
    if (generations_->acquirer.exchange(std::thread::id()) == std::thread::id()) {
      return make_error(Code::kFailedPrecondition,
                        "push_acquired: no input is acquired; call acquire_input first");
    }
    State& state = *generations_->pushing;
    const TurnGuard guard(&state.turns->pusher);
    const FrameNumber frame = state.source.done();
    if (Status ready = options.done ? state.delivery.start(state) : Status(); !ready) {
      give_slots_back(state, frame);
      return std::move(ready).error();
    }
    for (std::size_t i = 0; i < state.acquired.size(); ++i) {
      if (Status fits = check_given(state.plan.inputs[i].type, state.acquired[i]); !fits) {
        give_slots_back(state, frame);
        return std::move(fits)
            .error()
            .within({Where::kInput, state.plan.inputs[i].name})
            .within("push_acquired");
      }
    }
    const auto seat = admit(state, options.stream);
    if (!seat) {
      give_slots_back(state, frame);
      return no_seat(seat.error(), options.stream, kNoWait);
    }
    for (std::size_t i = 0; i < state.acquired.size(); ++i) {
      const Place& place = state.input_places[i];
      Tensor tensor = std::exchange(state.acquired[i], Tensor());
      if (place.edge == nullptr) continue;
      Slot& slot = place.edge->slot(frame);
      slot.own[place.tensor] = std::move(tensor);
      slot.now[place.tensor] = &slot.own[place.tensor];
    }
    return commit(state, frame, options, *seat, true);
  });
}

}  // namespace penstock::pipeline
