// Push, pop, run, set parameters, drain, cancel and end; also the results that are popped.
#include "penstock/pipeline/pipeline.h"

#include <algorithm>

#include "penstock/pipeline/generations.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/pipeline/ports.h"

namespace penstock::pipeline {
namespace {

/// "push: no room within 50 ms: <why>". The time is data: who waits in slices tells of the whole.
template <typename... Args>
Error timed_out(std::string what, std::chrono::nanoseconds timeout, const Args&... why) {
  return make_error(Code::kDeadlineExceeded, why...)
      .within({Where::kTimeoutNs, timeout.count()})
      .within(std::move(what));
}

// Waits until `wait.progress` reaches `least`. False: the deadline passed, the pipeline ended, or
// the turn is to be handed over.
bool await(State& state, Wait& wait, FrameNumber least, std::int64_t deadline) {
  const auto ended = [&] { return state.ending.cancelled() || state.turns->wanted(); };
  while (wait.seen < least) {
    wait.seen = wait.progress->done();
    if (wait.seen >= least) return true;
    if (ended() || deadline == 0 || (deadline != kNever && now_ns() >= deadline)) return false;
    sleep_until(wait, least, {state.wake_batch, Batch::kCallerPatience}, deadline, ended);
  }
  return true;
}

// kNoWait reads no clock.
std::int64_t deadline_of(std::chrono::nanoseconds timeout) {
  return timeout <= std::chrono::nanoseconds::zero() ? 0 : deadline_after(timeout);
}

// False: other threads were pushing until `deadline`, or until the pipeline closed.
bool begin_push(Generations& generations, std::int64_t deadline, Priority priority) {
  const auto closed = [&] { return generations.closed_by().has_value(); };
  return generations.turns->pusher.begin(deadline, closed, priority == Priority::kHigh);
}

// Waits for room for the next frame; the caller has the pusher's turn.
Status make_room(State& state, std::chrono::nanoseconds timeout, std::int64_t deadline) {
  auto& caller = state.pusher;
  const FrameNumber frame = state.source.done();
  const auto full = [&](const std::string& what) -> Status {
    if (state.ending.cancelled()) return state.ending.error();
    return timed_out("push: no room", timeout, what);
  };
  const auto reach = [&](Wait& wait, FrameNumber least) {
    if (wait.seen < least && wait.progress == &state.sink && state.sink.done() < least)
      state.loans.want_back(least);
    return await(state, wait, least, deadline);
  };
  if (frame >= state.in_flight_limit &&
      !reach(caller.waits[0], frame - state.in_flight_limit + 1)) {
    return full(concat(state.in_flight_limit, " frames are in flight, the most allowed; pop one"));
  }
  for (std::size_t i = 1; i < caller.waits.size(); ++i) {
    const FrameNumber capacity = state.input_capacities[i - 1];
    if (capacity == 0 || frame < capacity) continue;
    if (!reach(caller.waits[i], frame - capacity + 1)) {
      return full(concat("the input edge holds ", capacity, " frames, its capacity"));
    }
  }
  return {};
}

// The seat of the frame's stream; the caller has the pusher's turn.
Result<Streams::Seat> admit(State& state, std::uint64_t stream, std::chrono::nanoseconds timeout,
                            std::int64_t deadline) {
  if (stream == 0) return Streams::Seat{0};
  auto seat = state.streams->admit(
      stream, deadline,
      [&](Streams::Seat given, FrameNumber step) { return state.reset_states(given, step); },
      [&] { return state.ending.closed() || state.turns->wanted(); });
  if (seat) return seat;
  if (state.ending.closed()) return state.ending.error();
  Error error = std::move(seat).error().within({Where::kStream, stream});
  if (error.code != Code::kDeadlineExceeded) return std::move(error).within("push");
  return std::move(error).within({Where::kTimeoutNs, timeout.count()}).within("push: no room");
}

// Room, and the seat of the stream; the caller has the pusher's turn.
Result<Streams::Seat> find_place(State& state, std::uint64_t stream,
                                 std::chrono::nanoseconds timeout, std::int64_t deadline) {
  PENSTOCK_CHECK_OK(make_room(state, timeout, deadline));
  return admit(state, stream, timeout, deadline);
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

void give_slots_back(State& state, FrameNumber frame) {
  for (Edge* edge : state.input_edges) {
    if (edge->lossy()) edge->abandon_write(frame);
  }
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

// Before anything of the frame is written: an edge with policy `error` refuses it here.
Status check_error_policy(State& state) {
  for (const Edge* edge : state.input_edges) {
    if (edge->policy == plan::FullPolicy::kError && edge->full()) {
      return make_error(Code::kResourceExhausted, "push: edge '", edge->name, "' is full (",
                        edge->capacity(), " frames) and its policy is 'error'");
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
  }
  const std::scoped_lock lock(state.ending.commit);
  if (state.ending.closed()) return state.ending.error();
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
    if (!edge->lossy()) {
      edge->begin_readers(frame);
    } else if (has_slots) {
      edge->end_write(frame);
    } else {
      edge->drops.fetch_add(1, std::memory_order_relaxed);
      edge->on_drop(*edge, frame);
    }
  }
  state.source.complete(frame);
  return frame;
}

}  // namespace

void State::wake_everybody() {
  source.wake_all();
  sink.wake_all();
  turns->pusher.wake_all();
  streams->wake_all();
  for (auto& stage : stages) {
    stage->progress.wake_all();
    stage->returns.wake();
  }
}

void State::cancel(Error cause) {
  ending.advance(Life::kCancelled, cause);
  for (auto& worker : workers) worker->cancel_runs();
  wake_everybody();
  // From here on it is replaced or never will be: both are done under Ending::commit.
  if (!ending.replaced()) return;
  if (const auto next = successor.lock()) next->cancel(std::move(cause));
}

bool State::cancel_frame(FrameNumber frame) {
  {
    const std::scoped_lock lock(ending.commit);  // No other frame gets the record meanwhile.
    const FrameNumber pushed = source.done();
    if (frame < first || frame >= pushed || pushed - frame > records.size()) return false;
    const bool cancelled = record(frame).fail(Outcome::kCancelled, [&] {
      return make_error(Code::kCancelled, "cancelled by its number").within({Where::kFrame, frame});
    });
    if (!cancelled) return false;
  }
  for (auto& worker : workers) worker->end_cancelled_calls();
  return true;
}

bool State::wait_until_workers_left(std::int64_t deadline) {
  std::unique_lock lock(left_mutex);
  const auto all_left = [&] { return running_workers == 0; };
  if (deadline != kNever) {
    using Time = std::chrono::steady_clock::time_point;
    return left.wait_until(lock, Time(std::chrono::nanoseconds(deadline)), all_left);
  }
  left.wait(lock, all_left);
  return true;
}

void State::keep_for_ever() {
  static std::mutex mutex;
  static auto* kept = new std::vector<std::shared_ptr<State>>;
  const std::scoped_lock lock(mutex);
  kept->push_back(shared_from_this());
}

void State::free_stages() {
  for (auto& worker : workers) worker->free();
  for (auto& stage : stages) {
    stage->partitions.clear();
    stage->versions.clear();
  }
  states.clear();
  options = {};
  backends = {};
  for (auto& edge : edges) {
    const bool leaves = std::ranges::find(edge->to, plan::kPipelineOutput) != edge->to.end();
    if (!leaves) edge->free_slots();
  }
}

void State::hang(FrameNumber frame, Error cause) {
  ending.fail_from(frame);
  ending.advance(Life::kClosed, std::move(cause));
  wake_everybody();
}

void State::begin_at(FrameNumber next) {
  first = next;
  next_pop = next;
  source.begin_at(next);
  sink.begin_at(next);
  for (auto& stage : stages) {
    stage->next.store(next, std::memory_order_relaxed);
    stage->progress.begin_at(next);
  }
}

void State::stop() {
  ending.advance(Life::kStopping);
  gate.open();
  wake_everybody();
}

void State::end() {
  stop();
  if (watchdog) {
    wait_until_workers_left(kNever);  // The watchdog replaces those that hang.
    watchdog.reset();
  }
  {
    const std::scoped_lock lock(looked_at);
    for (auto& worker : workers) worker->join();
  }
  delivery.end();  // Callbacks may look.
  const std::scoped_lock lock(looked_at);
  if (!left_calls.load()) {
    free_stages();
    return;
  }
  const auto keeps = [](const auto& worker) { return worker->keeps_lost(); };
  if (std::ranges::any_of(workers, keeps)) keep_for_ever();
}

Pipeline::Pipeline(std::unique_ptr<Generations> generations)
    : generations_(std::move(generations)) {}

Pipeline::~Pipeline() {
  cancel();
  const std::scoped_lock lock(generations_->replace_mutex);  // One in progress ends by itself.
  const auto generations = generations_->all();
  for (const auto& state : generations) state->stop();
  if (generations_->ender.joinable()) generations_->ender.join();
  generations.back()->end();
}

Result<Pipeline::Admitted> Pipeline::begin_frame(const char* what, std::chrono::nanoseconds timeout,
                                                 const FrameOptions& options) {
  auto& turns = *generations_->turns;
  if (generations_->acquirer.load() == std::this_thread::get_id()) {
    return make_error(Code::kFailedPrecondition, what,
                      ": an acquired input is not pushed yet; call push_acquired first");
  }
  const std::int64_t deadline = deadline_of(timeout);
  for (;;) {
    if (!begin_push(*generations_, deadline, options.priority)) {
      if (auto error = generations_->closed_by()) return *std::move(error);
      return timed_out(concat(what, ": no turn"), timeout, "another thread was pushing");
    }
    TurnGuard guard(&turns.pusher);
    State& state = *generations_->pushing;
    if (state.ending.closed()) return state.ending.error();
    if (options.done) PENSTOCK_CHECK_OK(state.delivery.start(state));
    PENSTOCK_CHECK_OK(check_error_policy(state));
    Result<Streams::Seat> seat = find_place(state, options.stream, timeout, deadline);
    const bool handed_over = turns.hand_over();
    if (!handed_over) {
      // Again: a call that hangs may still read the slot that seems free.
      if (state.ending.closed()) return state.ending.error();
      if (!seat) return std::move(seat).error();
    }
    guard.keep();
    if (!handed_over) return Admitted{&state, *seat};
  }
}

Result<FrameNumber> Pipeline::push(std::span<const Tensor> inputs, std::chrono::nanoseconds timeout,
                                   const FrameOptions& options) {
  return guarded([&]() -> Result<FrameNumber> {
    const auto& wanted = generations_->inputs;
    if (inputs.size() != wanted.size()) {
      return invalid_argument("push: expected ", wanted.size(), " inputs, found ", inputs.size());
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
    const auto names = [&] {
      return join(wanted, ", ", [](const plan::TensorInfo& info) { return "'" + info.name + "'"; });
    };
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
        return invalid_argument("push: no input '", name, "'; the inputs are ", names());
      const auto i = static_cast<std::size_t>(found - wanted.begin());
      if (given[i]) return invalid_argument("push: input '", name, "' is given twice");
      given[i] = true;
      ordered[i] = tensor;
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!given[i])
        return invalid_argument("push: input '", wanted[i].name, "' is missing; the inputs are ",
                                names());
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
        return std::move(fits).error().within(
            concat("push_acquired: input '", state.plan.inputs[i].name, "'"));
      }
    }
    const auto seat = admit(state, options.stream, kNoWait, 0);
    if (!seat) {
      give_slots_back(state, frame);
      return seat.error();
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

namespace {

enum class Came : std::uint8_t { kFrame, kEnd, kLate };

// Until all stages that feed the output are done with the frame. kEnd: it was not pushed, and is
// not any more.
Came await_frame(State& state, FrameNumber frame, std::int64_t deadline) {
  const auto at_end = [&] { return state.ending.closed() && frame >= state.source.done(); };
  for (auto& wait : state.popper.waits) {
    while (wait.seen <= frame) {
      wait.seen = wait.progress->done();
      if (wait.seen > frame) break;
      if (at_end()) return Came::kEnd;
      if (deadline == 0 || (deadline != kNever && now_ns() >= deadline)) return Came::kLate;
      const FrameNumber pushed = state.source.done();
      const FrameNumber in_flight = pushed > frame ? pushed - frame : 0;
      const Batch batch{std::clamp<FrameNumber>(in_flight / 2, 1, state.wake_batch),
                        Batch::kCallerPatience};
      sleep_until(wait, frame + 1, batch, deadline, at_end);
    }
  }
  return Came::kFrame;
}

// Of a frame that nobody popped. Its record is its own until it is released, which only the thread
// that calls back may have done.
bool has_callback(State& state, FrameNumber frame) {
  const bool calls_back = state.record(frame).calls_back();
  return calls_back || state.sink.done() > frame;
}

}  // namespace

Result<std::optional<Output>> Pipeline::pop(std::chrono::nanoseconds timeout) {
  const std::int64_t deadline = deadline_of(timeout);
  auto& turn = generations_->turns->popper;
  if (!turn.begin(deadline, [] { return false; })) {
    return timed_out("pop: no turn", timeout, "another thread was popping");
  }
  const TurnGuard guard(&turn);
  for (;;) {
    State& state = *generations_->popping;
    // What was released need not be popped.
    const FrameNumber frame = std::max(state.next_pop, state.sink.done());
    const Came came = await_frame(state, frame, deadline);
    if (came == Came::kLate) {
      return timed_out("pop: no frame came out", timeout, state.source.done() - frame,
                       " are in flight");
    }
    if (came == Came::kEnd) {
      if (generations_->pop_on()) continue;
      return std::optional<Output>();
    }
    state.next_pop = frame + 1;
    const auto is_there = [&](const Wait& wait) { return wait.seen > frame + 1; };
    if (std::ranges::all_of(state.popper.waits, is_there)) expect_write(&state.record(frame + 1));
    if (!has_callback(state, frame)) {
      return std::optional<Output>(Output(generations_->popping, frame, Output::By::kPop));
    }
  }
}

Result<std::vector<Tensor>> Pipeline::run(std::span<const Tensor> inputs,
                                          const FrameOptions& options) {
  return guarded([&]() -> Result<std::vector<Tensor>> {
    const std::scoped_lock lock(generations_->run_mutex);
    FrameNumber in_flight = 0;
    for (const auto& state : generations_->all()) {
      in_flight += state->source.done() - state->sink.done();
    }
    if (in_flight > 0) {
      return make_error(Code::kFailedPrecondition, "run: ", in_flight,
                        " frames are in flight; use push and pop, or drain first");
    }
    PENSTOCK_CHECK_OK(push(inputs, kPatient, options));
    PENSTOCK_TRY(auto output, pop(kForever));
    if (!output) return generations_->newest()->ending.error();
    if (!output->ok()) return output->error();
    std::vector<Tensor> copies;
    copies.reserve(output->size());
    for (std::size_t i = 0; i < output->size(); ++i) copies.push_back((*output)[i].clone());
    return copies;
  });
}

namespace {

/// A value for the `position`-th parameter of a stage.
struct Replacement {
  Stage* stage = nullptr;
  std::size_t position = 0;
  const Tensor* value = nullptr;
  std::vector<Tensor> elsewhere;  // The value in each of Stage::own_memories.
};

Error no_such_parameter(const State& state, std::string_view stage, const std::string& name) {
  const std::string where =
      stage.empty() ? "no stage has a" : concat("stage '", stage, "' does not exist or has no");
  return not_found("set_parameters: ", where, " parameter '", name, "'; the parameters are ",
                   join(state.plan.parameters, ", ",
                        [](const plan::Parameter& p) { return "'" + p.name + "'"; }));
}

Result<std::vector<Replacement>> find_replacements(const State& state, std::string_view stage_name,
                                                   const Named& values) {
  std::vector<Replacement> found;
  for (const auto& [name, tensor] : values) {
    const auto before = found.size();
    for (const auto& stage : state.stages) {
      const auto& names = stage->plan->parameters;
      const auto at = std::ranges::find(names, name);
      if ((!stage_name.empty() && stage->plan->name != stage_name) || at == names.end()) continue;
      found.push_back({stage.get(), static_cast<std::size_t>(at - names.begin()), &tensor, {}});
    }
    if (found.size() == before) return no_such_parameter(state, stage_name, name);
    const auto info = std::ranges::find(state.plan.parameters, name, &plan::Parameter::name);
    if (Status fits = check_given(info->type, tensor); !fits) {
      return std::move(fits).error().within(concat("set_parameters: '", name, "'"));
    }
  }
  return found;
}

// Before pushers wait: a copy to a device takes its time.
Status copy_elsewhere(std::vector<Replacement>& replacements) {
  for (auto& replacement : replacements) {
    for (const auto& memory : replacement.stage->own_memories) {
      auto copy = copied_to(memory.get(), *replacement.value);
      if (!copy) {
        const auto& stage = *replacement.stage->plan;
        return std::move(copy)
            .error()
            .within(concat("set_parameters: '", stage.parameters[replacement.position], "'"))
            .within({Where::kStage, stage.name});
      }
      replacement.elsewhere.push_back(*std::move(copy));
    }
  }
  return {};
}

// A version with the stage's replacements, which no frame reads until publish_versions().
void append_version(const State& state, Stage& stage,
                    const std::vector<Replacement>& replacements) {
  const auto& newest = *stage.versions.back();
  auto version = std::make_shared<ParameterVersion>(ParameterVersion{
      newest.number + 1, state.source.done(), newest.values, newest.given, newest.elsewhere});
  for (const auto& replacement : replacements) {
    if (replacement.stage != &stage) continue;
    version->values[replacement.position] = replacement.value->clone();
    version->given[replacement.position] = true;
    for (std::size_t m = 0; m < replacement.elsewhere.size(); ++m) {
      version->elsewhere[m][replacement.position] = replacement.elsewhere[m];
    }
  }
  const std::scoped_lock lock(stage.parameter_mutex);
  stage.versions.push_back(std::move(version));
}

// All stages take what was appended, and forget what no frame reads any more; nothing can fail.
void publish_versions(State& state) {
  for (auto& stage : state.stages) {
    const std::scoped_lock lock(stage->parameter_mutex);
    if (stage->versions.empty()) continue;
    stage->newest_version.store(stage->versions.back()->number, std::memory_order_release);
    const FrameNumber done = stage->progress.done();
    while (stage->versions.size() > 1 && stage->versions[1]->first_frame <= done)
      stage->versions.pop_front();
  }
}

// Forgets what was appended and not published.
void drop_versions(State& state) {
  for (auto& stage : state.stages) {
    const std::scoped_lock lock(stage->parameter_mutex);
    const auto published = stage->newest_version.load();
    if (!stage->versions.empty() && stage->versions.back()->number > published)
      stage->versions.pop_back();
  }
}

}  // namespace

Status Pipeline::set_parameters(std::string_view stage_name, const Named& values) {
  return guarded([&]() -> Status {
    if (values.empty()) return invalid_argument("set_parameters: no values are given");
    for (;;) {
      const auto newest = generations_->newest();
      State& state = *newest;
      PENSTOCK_TRY(auto replacements, find_replacements(state, stage_name, values));
      PENSTOCK_CHECK_OK(copy_elsewhere(replacements));
      // Nothing is pushed meanwhile, so that "from the next frame on" means the same for all
      // stages.
      const std::scoped_lock commits(state.ending.commit);
      if (state.ending.replaced()) continue;  // Another one takes the next frame.
      Status appended = guarded([&]() -> Status {
        for (auto& stage : state.stages) {
          const auto concerns = [&](const Replacement& r) { return r.stage == stage.get(); };
          if (std::ranges::any_of(replacements, concerns))
            append_version(state, *stage, replacements);
        }
        return {};
      });
      appended ? publish_versions(state) : drop_versions(state);
      return appended;
    }
  });
}

void Pipeline::close() {
  std::shared_ptr<State> state;
  do {
    state = generations_->newest();
    state->ending.advance(Life::kClosed);
  } while (state->ending.replaced());  // Not before it was the newest: then another one is.
  state->wake_everybody();
}

Status State::drain(std::chrono::nanoseconds timeout, std::int64_t deadline) {
  if (!drainers_turn.begin(deadline, [] { return false; })) {
    return timed_out("drain: no turn", timeout, "another thread was draining");
  }
  const TurnGuard guard(&drainers_turn);
  const FrameNumber pushed = source.done();
  for (auto& wait : drainer.waits) {
    while ((wait.seen = wait.progress->done()) < pushed) {
      if (deadline == 0 || (deadline != kNever && now_ns() >= deadline)) {
        return timed_out("drain: not done", timeout, pushed - wait.seen,
                         " frames are still in flight");
      }
      if (releases.stuck(totals->all(), sink.done(), awaiting_release.load(), now_ns())) {
        return make_error(Code::kFailedPrecondition,
                          "drain: the results fill the output edge, and ", pushed - wait.seen,
                          " frames wait behind them; pop them, then drain");
      }
      sleep_until(wait, pushed, {}, std::min(deadline, now_ns() + ReleaseWatch::kLook),
                  [] { return false; });
    }
  }
  return {};
}

Status Pipeline::drain(std::chrono::nanoseconds timeout) {
  const std::int64_t deadline = deadline_of(timeout);
  for (const auto& state : generations_->all()) {
    PENSTOCK_CHECK_OK(state->drain(timeout, deadline));
  }
  return {};
}

void Pipeline::cancel() {
  generations_->oldest()->cancel({});
}

bool Pipeline::cancel(FrameNumber frame) {
  auto generations = generations_->all();
  while (generations.back()->first > frame && generations.size() > 1) generations.pop_back();
  return generations.back()->cancel_frame(frame);
}

void Pipeline::give_up() {
  for (const auto& state : generations_->all()) {
    const std::scoped_lock lock(state->ending.commit);
    state->ending.give_up_before(state->source.done());
  }
}

bool Pipeline::end(std::chrono::nanoseconds timeout) {
  cancel();
  const std::int64_t deadline = deadline_after(timeout);
  const auto generations = generations_->all();
  return std::ranges::all_of(
      generations, [&](const auto& state) { return state->wait_until_workers_left(deadline); });
}

std::vector<std::string> Pipeline::leave_behind() {
  cancel();
  std::vector<std::string> sentences;
  for (const auto& state : generations_->all()) {
    const std::scoped_lock lock(state->looked_at);
    for (auto& worker : state->workers) {
      if (auto sentence = worker->leave_behind()) sentences.push_back(*std::move(sentence));
    }
  }
  return sentences;
}

std::optional<Error> Pipeline::closed_by() const {
  return generations_->closed_by();
}

std::optional<std::uint64_t> Pipeline::memory_bytes() const {
  const auto [state, lock] = generations_->look();
  return memory_ceiling(state->plan, state->options, state->memories);
}

int Pipeline::in_flight_limit() const {
  return static_cast<int>(generations_->newest()->in_flight_limit);
}
const plan::Plan& Pipeline::plan() const {
  return generations_->newest()->plan;
}

std::shared_ptr<const plan::Plan> Pipeline::shared_plan() const {
  const auto state = generations_->newest();
  return {state, &state->plan};
}

Observation Pipeline::observe() const {
  return generations_->newest()->totals->observer.make().observation();
}

// Output

Output::Output(std::shared_ptr<State> state, FrameNumber number, By by)
    : state_(std::move(state)), number_(number) {
  auto& record = state_->record(number);
  tag_ = record.tag;
  stream_ = record.stream;
  const std::int64_t now = now_ns();
  latency_ = std::chrono::nanoseconds(now - record.pushed_ns);
  if (state_->journeys) state_->journeys->add({number, record.pushed_ns, now});
  for (Edge* edge : state_->output_edges) {
    if (edge->lossy()) edge->begin_read(number);
  }
  state_->streams->pop(record);
  if (!record.come_out()) std::tie(outcome_, error_) = record.take_failure();
  if (auto* const observer = state_->totals->observer.get()) observer->note(*this, by == By::kPop);
  by == By::kPop ? state_->totals->count_popped(outcome_) : state_->totals->count(outcome_);
  // Last: from here on a later frame may take the record.
  if (ok()) {
    state_->loans.lend(number);
  } else {
    state_->loans.pass(number);
    state_.reset();
  }
}

Output::Output(Output&&) noexcept = default;
Output& Output::operator=(Output&& other) noexcept {
  if (this == &other) return *this;
  release();
  state_ = std::move(other.state_);
  number_ = other.number_;
  tag_ = other.tag_;
  stream_ = other.stream_;
  outcome_ = other.outcome_;
  latency_ = other.latency_;
  error_ = std::move(other.error_);
  return *this;
}
Output::~Output() {
  release();
}

void Output::release() {
  if (!state_) return;
  state_->loans.give_back(number_);
  state_.reset();
}

std::size_t Output::size() const {
  return ok() && state_ ? state_->output_places.size() : 0;
}

const Tensor& Output::operator[](std::size_t index) const {
  const Place& place = state_->output_places[index];
  return *state_->loans.slot(*place.edge, number_).now[place.tensor];
}

const Tensor* Output::find(std::string_view name) const {
  if (!ok()) return nullptr;
  const auto& outputs = state_->plan.outputs;
  const auto found = std::ranges::find(outputs, name, &plan::TensorInfo::name);
  return found == outputs.end() ? nullptr
                                : &(*this)[static_cast<std::size_t>(found - outputs.begin())];
}

Tensor Output::take(std::size_t index) {
  const Place& place = state_->output_places[index];
  Slot& slot = state_->loans.slot(*place.edge, number_);
  // Others may still read the slot of an input, or of an edge that stages read too.
  if (place.edge->from == plan::kPipelineInput || place.edge->to.size() > 1)
    return (*this)[index].clone();
  Tensor fresh = storage_for(place.edge->types[place.tensor]);  // First: it may throw bad_alloc.
  return std::exchange(slot.own[place.tensor], std::move(fresh));
}

}  // namespace penstock::pipeline
