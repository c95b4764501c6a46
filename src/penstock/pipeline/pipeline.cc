// The pipeline as its caller sees it: runs one frame, closes, drains, cancels and ends.
#include "penstock/pipeline/pipeline.h"

#include <algorithm>

#include "penstock/base/words.h"
#include "penstock/pipeline/generations.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/pipeline/timeout.h"
#include "penstock/pipeline/worker.h"

namespace penstock::pipeline {
namespace {

// Without memory it is told nothing.
void tell(std::optional<std::string> sentence, std::vector<std::string>& to) {
  if (!sentence || sentence->empty()) return;
  static_cast<void>(guarded([&]() -> Status {
    to.push_back(*std::move(sentence));
    return {};
  }));
}

}  // namespace

Pipeline::Pipeline(std::unique_ptr<Generations> generations)
    : generations_(std::move(generations)) {}

Pipeline::~Pipeline() {
  cancel();
  const std::scoped_lock lock(generations_->replace_mutex);  // One in progress ends by itself.
  generations_->stop();
  if (generations_->ender.joinable()) generations_->ender.join();
  generations_->newest()->end();
}

Result<std::vector<Tensor>> Pipeline::run(std::span<const Tensor> inputs,
                                          const FrameOptions& options) {
  return guarded([&]() -> Result<std::vector<Tensor>> {
    if (options.done) {
      return invalid_argument(
          "run: its result comes back; expected no callback, found one (done); use push");
    }
    const std::scoped_lock lock(generations_->run_mutex);
    FrameNumber in_flight = 0;
    for (const auto& state : generations_->all()) {
      in_flight += state->source.done() - state->sink.done();
    }
    if (in_flight > 0) {
      return make_error(Code::kFailedPrecondition, "run: expected no frames in flight, found ",
                        in_flight, "; use push and pop, or drain first");
    }
    PENSTOCK_TRY(const FrameNumber frame, push(inputs, kPatient, options));
    hurry(frame);
    PENSTOCK_TRY(auto output, pop(kForever));
    if (!output) return generations_->newest()->ending.error();
    if (output->number() != frame) {
      return make_error(Code::kFailedPrecondition, "run: expected frame ", frame,
                        " to come out next, found ", output->number(),
                        "; another thread pushes: use push and pop");
    }
    if (!output->ok()) return output->error();
    std::vector<Tensor> copies;
    copies.reserve(output->size());
    for (std::size_t i = 0; i < output->size(); ++i) copies.push_back((*output)[i].clone());
    return copies;
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

Status Pipeline::drain(std::chrono::nanoseconds timeout, FrameNumber end) {
  return guarded([&]() -> Status {
    const std::int64_t deadline = deadline_of(timeout);
    const auto generations = generations_->all();
    const FrameNumber pushed = std::min(end, generations.back()->source.done());
    for (const auto& state : generations) {
      PENSTOCK_CHECK_OK(state->drain(timeout, deadline, pushed));
    }
    if (Delivery::is_in_callback(*generations_->turns)) return {};  // Its own would never return.
    // Of a plan that was replaced all frames may have come out before a callback has returned.
    std::size_t left = 0;
    generations_->visit_oldest_first([&](State& state) {
      left = state.delivery.wait_until_called(pushed, deadline);
      return left == 0;
    });
    if (left == 0) return {};
    return timed_out("drain: not done", timeout, counted(left, "callback"),
                     left == 1 ? " has" : " have", " not returned");
  });
}

void Pipeline::cancel() {
  generations_->oldest()->cancel({});
  // The oldest may have gone meanwhile, with the way to the ones behind it.
  for (auto newest = generations_->newest(); !newest->ending.cancelled();
       newest = generations_->newest()) {
    newest->cancel({});
  }
}

bool Pipeline::cancel(FrameNumber frame) {
  return generations_->of(frame)->cancel_frame(frame);
}

void Pipeline::hurry(FrameNumber frame) {
  generations_->hurry(frame);
}

void Pipeline::give_up() {
  generations_->give_up();
}

bool Pipeline::end(std::chrono::nanoseconds timeout) {
  cancel();
  const std::int64_t deadline = deadline_after(timeout);
  const bool calls_back = Delivery::is_in_callback(*generations_->turns);
  return generations_->visit_oldest_first([&](State& state) {
    return state.wait_until_workers_left(deadline) &&
           (calls_back || state.delivery.finish(deadline));
  });
}

Pipeline::LeftBehind Pipeline::leave_behind() {
  cancel();
  LeftBehind left;
  // What is left here lets callbacks begin, of the same plan and of the ones behind it, and those
  // have had no time yet: all callbacks are looked at before any call, the newest plan's first.
  generations_->visit_newest_first([&](State& state) {
    const std::scoped_lock lock(state.looked_at);
    tell(state.delivery.leave_behind(), left.callbacks);
  });
  std::ranges::reverse(left.callbacks);
  generations_->visit_oldest_first([&](State& state) {
    const std::scoped_lock lock(state.looked_at);
    for (auto& worker : state.workers) tell(worker->leave_behind(), left.calls);
    return true;
  });
  // Once no call is waited for, and without the lock, which callbacks may want.
  generations_->visit_oldest_first([](State& state) {
    for (auto& worker : state.workers) worker->attend();
    return true;
  });
  return left;
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

std::filesystem::path Pipeline::folder() const {
  return generations_->newest()->folder;
}

Observation Pipeline::observe() const {
  return generations_->newest()->totals->observer.make().observation();
}

}  // namespace penstock::pipeline
