// Pop: the caller waits for the next result that no callback takes.
#include <algorithm>

#include "penstock/pipeline/generations.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/pipeline/timeout.h"

namespace penstock::pipeline {
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

// In the popper's turn: waits for the next frame that no callback takes, and passes over those
// before it. \returns nothing at the end.
Result<std::optional<FrameNumber>> await_next(Generations& generations,
                                              std::chrono::nanoseconds timeout,
                                              std::int64_t deadline) {
  for (;;) {
    State& state = *generations.popping;
    // What was released need not be popped.
    const FrameNumber frame = std::max(state.next_pop, state.sink.done());
    const Came came = await_frame(state, frame, deadline);
    if (came == Came::kLate) {
      return timed_out("pop: no frame came out", timeout, state.source.done() - frame,
                       " are in flight");
    }
    if (came == Came::kEnd) {
      if (generations.pop_on()) continue;
      return std::optional<FrameNumber>();
    }
    if (!has_callback(state, frame)) return std::optional(frame);
    state.next_pop = frame + 1;
  }
}

// In the popper's turn, which it takes, calls `then` with the next frame, or nothing at the end.
template <typename Then>
auto when_it_comes(Generations& generations, std::chrono::nanoseconds timeout, Then then)
    -> decltype(then(std::optional<FrameNumber>())) {
  const std::int64_t deadline = deadline_of(timeout);
  auto& turn = generations.turns->popper;
  if (!turn.begin(deadline, [] { return false; })) {
    return timed_out("pop: no turn", timeout, "another thread was popping");
  }
  const TurnGuard guard(&turn);
  PENSTOCK_TRY(const auto frame, await_next(generations, timeout, deadline));
  return then(frame);
}

}  // namespace

Result<std::optional<Output>> Pipeline::pop(std::chrono::nanoseconds timeout) {
  using Popped = Result<std::optional<Output>>;
  return guarded([&] {
    return when_it_comes(*generations_, timeout, [&](std::optional<FrameNumber> frame) -> Popped {
      if (!frame) return std::optional<Output>();
      State& state = *generations_->popping;
      state.next_pop = *frame + 1;
      const auto is_there = [&](const Wait& wait) { return wait.seen > *frame + 1; };
      if (std::ranges::all_of(state.popper.waits, is_there))
        expect_write(&state.record(*frame + 1));
      return std::optional<Output>(Output(generations_->popping, *frame, Output::By::kPop));
    });
  });
}

Status Pipeline::await_output(std::chrono::nanoseconds timeout) {
  return guarded([&] {
    return when_it_comes(*generations_, timeout,
                         [](std::optional<FrameNumber>) -> Status { return {}; });
  });
}

}  // namespace penstock::pipeline
