// Links a new plan behind the old one with its parameters, and pops on once the old is empty.
#include "penstock/pipeline/generations.h"

#include <algorithm>
#include <utility>

#include "penstock/pipeline/worker.h"

namespace penstock::pipeline {
namespace {

// What set_parameters() gave the old generation for a parameter, if anything: in the stage of that
// name, where it reads it; else in the first one that was given a value.
const Tensor* given_value(const State& old, const std::string& stage, const std::string& name) {
  const Tensor* found = nullptr;
  for (const auto& other : old.stages) {
    const auto at = std::ranges::find(other->plan->parameters, name);
    if (at == other->plan->parameters.end()) continue;
    const auto position = static_cast<std::size_t>(at - other->plan->parameters.begin());
    const std::scoped_lock lock(other->parameter_mutex);
    const auto& version = *other->versions.back();
    const Tensor* value = version.given[position] ? &version.values[position] : nullptr;
    if (other->plan->name == stage) return value;
    if (found == nullptr) found = value;
  }
  return found;
}

// No parameter of the old generation is set meanwhile: the caller has its Ending::commit.
// \error  of a device that has no room for them.
Status carry_parameters(const State& old, State& fresh) {
  for (auto& stage : fresh.stages) {
    if (stage->versions.empty()) continue;
    auto version = std::make_shared<ParameterVersion>(*stage->versions.back());
    for (std::size_t i = 0; i < version->values.size(); ++i) {
      const Tensor* value = given_value(old, stage->plan->name, stage->plan->parameters[i]);
      if (value == nullptr) continue;
      version->values[i] = *value;
      version->given[i] = true;
      for (std::size_t m = 0; m < stage->own_memories.size(); ++m) {
        PENSTOCK_TRY(version->elsewhere[m][i], copied_to(stage->own_memories[m].get(), *value));
      }
    }
    ++version->number;
    version->first_frame = old.source.done();
    const std::scoped_lock lock(stage->parameter_mutex);
    const auto number = version->number;
    stage->versions.push_back(std::move(version));
    stage->newest_version.store(number, std::memory_order_release);
  }
  return {};
}

// How long add_first_calls() makes a list.
std::size_t most_frames_of_first_calls(const State& state) {
  std::size_t most = 0;
  for (const auto& worker : state.workers) {
    if (&worker->stage() != state.stages.front().get()) continue;
    most = std::max(most, worker->meter.calls.size());
  }
  return most;
}

void add_first_calls(const State& state, std::vector<CallStats>& to) {
  for (const auto& worker : state.workers) {
    if (&worker->stage() != state.stages.front().get()) continue;
    to.resize(std::max(to.size(), worker->meter.calls.size()));
    for (std::size_t n = 0; n < worker->meter.calls.size(); ++n) {
      const auto more = worker->meter.call_stats(n + 1);
      to[n].calls += more.calls;
      to[n].input_ns += more.input_ns;
      to[n].infer_ns += more.infer_ns;
      to[n].output_ns += more.output_ns;
    }
  }
}

// Where the label is the last one's, it is one of its plans; one without a frame is none.
void add_plan(PlanStats plan, std::vector<PlanStats>& to) {
  if (!to.empty() && to.back().frames == 0) to.pop_back();
  if (!to.empty() && to.back().label == plan.label) {
    to.back().frames += plan.frames;
  } else {
    to.push_back(std::move(plan));
  }
}

}  // namespace

Generations::Generations(std::shared_ptr<State> first)
    : turns(first->turns),
      inputs(first->plan.inputs),
      bound(first->bound),
      pushing(first),
      popping(first) {
  live_.push_back(std::move(first));
}

std::shared_ptr<State> Generations::newest() const {
  const std::scoped_lock lock(mutex_);
  return live_.back();
}

std::shared_ptr<State> Generations::oldest() const {
  const std::scoped_lock lock(mutex_);
  return live_.front();
}

std::vector<std::shared_ptr<State>> Generations::all() const {
  const std::scoped_lock lock(mutex_);
  return {live_.begin(), live_.end()};
}

std::shared_ptr<State> Generations::newer_than(const State* state) const {
  const std::scoped_lock lock(mutex_);
  if (state == live_.back().get()) return nullptr;
  auto next = ending_.begin();
  if (state != nullptr) {
    next = std::ranges::find(ending_, state, &std::shared_ptr<State>::get);
    const auto is_newer = [&](const auto& other) { return other->first >= state->first; };
    next = next != ending_.end() ? next + 1 : std::ranges::find_if(ending_, is_newer);
  }
  return next == ending_.end() ? live_.back() : *next;
}

std::shared_ptr<State> Generations::older_than(const State* state) const {
  const std::scoped_lock lock(mutex_);
  if (state == nullptr) return live_.back();
  auto end = std::ranges::find(ending_, state, &std::shared_ptr<State>::get);
  // The newest, which is not among them, or one that has ended.
  const auto is_newer = [&](const auto& other) { return other->first > state->first; };
  if (end == ending_.end()) end = std::ranges::find_if(ending_, is_newer);
  return end == ending_.begin() ? nullptr : *(end - 1);
}

std::shared_ptr<State> Generations::of(FrameNumber frame) const {
  const std::scoped_lock lock(mutex_);
  const auto has = [&](const auto& state) { return state->first <= frame; };
  const auto found = std::ranges::find_if(live_.rbegin(), live_.rend(), has);
  return found == live_.rend() ? live_.front() : *found;
}

void Generations::give_up() {
  const std::scoped_lock lock(mutex_);
  for (const auto& state : live_) {
    const std::scoped_lock commits(state->ending.commit);
    state->ending.give_up_before(state->source.done());
    state->let_out(0, state->source.done());
  }
}

void Generations::hurry(FrameNumber frame) {
  const std::scoped_lock lock(mutex_);
  for (const auto& state : live_) {
    if (state->first <= frame) state->hurry(frame);
  }
}

void Generations::stop() {
  const std::scoped_lock lock(mutex_);
  for (const auto& state : live_) state->stop();
}

std::optional<Error> Generations::closed_by() const {
  const std::scoped_lock lock(mutex_);  // Else it may be replaced meanwhile.
  const Ending& ending = live_.back()->ending;
  if (!ending.closed()) return std::nullopt;
  return ending.error();
}

Generations::Looked Generations::look() const {
  for (;;) {
    auto state = newest();
    std::unique_lock lock(state->looked_at);
    if (state == newest()) return {std::move(state), std::move(lock)};
  }
}

std::vector<CallStats> Generations::first_calls() const {
  const std::scoped_lock lock(mutex_);
  auto calls = ended_calls_;
  for (const auto& state : ending_) add_first_calls(*state, calls);
  add_first_calls(*live_.back(), calls);
  return calls;
}

std::vector<PlanStats> Generations::plans(FrameNumber pushed) const {
  const std::scoped_lock lock(mutex_);
  auto plans = replaced_plans_;
  add_plan({live_.back()->options.label, std::max(pushed, first_frame_) - first_frame_}, plans);
  return plans;
}

void Generations::note_ended(const State& old) {
  const std::scoped_lock lock(mutex_);
  const auto same = [&](const auto& state) { return state.get() == &old; };
  if (std::erase_if(ending_, same) > 0) add_first_calls(old, ended_calls_);
}

bool Generations::is_over(const State& state) const {
  const std::scoped_lock lock(mutex_);
  const auto is_it = [&](const auto& other) { return other.get() == &state; };
  return std::ranges::none_of(live_, is_it) && std::ranges::none_of(ending_, is_it);
}

bool Generations::take_pushers_turn() {
  const std::scoped_lock lock(asking_);
  replacing_ = ask_for_turn();
  return replacing_;
}

void Generations::end_pushers_turn() {
  const std::scoped_lock lock(asking_);
  replacing_ = false;
  turns->pusher.end();
}

Status Generations::take_turn_between_frames(std::string_view what) {
  const auto refused = [&](const char* why) {
    return make_error(Code::kFailedPrecondition, what, ": ", why);
  };
  constexpr const char* kAcquired = "an acquired input is not pushed yet; call push_acquired first";
  if (acquirer.load() == std::this_thread::get_id()) return refused(kAcquired);
  const std::scoped_lock lock(asking_);
  if (turns->pusher.begin(0, [] { return true; })) return {};
  if (acquirer.load() != std::thread::id()) return refused(kAcquired);
  if (replacing_) return refused("replace() waits for frames to end; call it after that");
  if (ask_for_turn()) return {};
  return closed_by().value_or(make_error(Code::kCancelled, what, ": the pipeline was closed"));
}

bool Generations::ask_for_turn() {
  turns->wish.store(Turns::Wish::kWanted);
  newest()->pusher.parker.wake();  // Who waits there for room looks at the wish.
  return turns->take([&] { return closed_by().has_value(); });
}

Status Generations::link(const std::shared_ptr<State>& fresh) {
  State& old = *pushing;
  {
    const std::scoped_lock lock(mutex_, old.ending.commit);
    if (old.ending.closed()) return old.ending.error();
    PENSTOCK_CHECK_OK(carry_parameters(old, *fresh));
    // What may find no memory comes before what changes anything, note_ended()'s too.
    PlanStats plan{old.options.label, old.source.done() - first_frame_};
    replaced_plans_.reserve(replaced_plans_.size() + 1);
    ending_.reserve(ending_.size() + 1);
    ended_calls_.reserve(most_frames_of_first_calls(old));
    if (old.journeys) past.make_room();
    live_.push_back(fresh);
    fresh->turns = turns;
    fresh->totals = old.totals;
    fresh->streams->add_evicted(old.streams->evicted());
    fresh->delivery.hold();
    fresh->begin_at(old.source.done());
    add_plan(std::move(plan), replaced_plans_);
    first_frame_ = old.source.done();
    ending_.push_back(pushing);
    if (old.journeys) past.add(pushing);
    old.successor = fresh;
    old.ending.replace();
  }
  old.wake_everybody();
  pushing = fresh;
  return {};
}

bool Generations::pop_on() {
  if (!popping->ending.replaced()) return false;
  std::shared_ptr<State> gone;
  const std::scoped_lock lock(mutex_);
  gone = std::exchange(popping, live_[1]);
  live_.pop_front();
  return true;
}

void Generations::pop_on_unless_popped() {
  if (!turns->popper.begin(0, [] { return true; })) return;  // Who has the turn does it.
  const TurnGuard guard(&turns->popper);
  while (std::max(popping->next_pop, popping->sink.done()) >= popping->source.done()) {
    if (!pop_on()) break;
  }
}

}  // namespace penstock::pipeline
