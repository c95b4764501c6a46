// How a frame fails at an instance: given up, too late, or by an error of its call.
#include "penstock/pipeline/fate.h"

#include "penstock/base/words.h"
#include "penstock/pipeline/guarded.h"

namespace penstock::pipeline {

bool Fate::fail_ended(FrameNumber frame) {
  auto& state = self_.state;
  // A call may hang once the pipeline is cancelled: the frames behind it are cancelled then.
  if (state.ending.fails(frame) && !state.ending.cancelled()) {
    const bool stopped = state.ending.what_cuts() == Cut::kError;
    state.record(frame).fail(stopped ? Outcome::kCancelled : Outcome::kError, [&] {
      return state.ending.behind_cut().within({Where::kFrame, frame});
    });
    return true;
  }
  if (state.ending.given_up(frame)) {
    state.record(frame).fail(Outcome::kCancelled, [&] {
      return make_error(Code::kCancelled, "given up").within({Where::kFrame, frame});
    });
    return true;
  }
  if (!state.ending.cancelled()) return false;
  state.record(frame).fail(Outcome::kCancelled, [&] { return state.ending.error(); });
  return true;
}

void Fate::fail_late(FrameNumber frame) {
  fail(frame, lateness(frame));
}

Error Fate::lateness(FrameNumber frame) const {
  const auto& record = self_.state.record(frame);
  const auto since = [&](std::int64_t time_ns) {
    return time_text(static_cast<double>(time_ns - record.pushed_ns));
  };
  Status late = guarded([&]() -> Status {
    if (record.deadline_ns <= record.pushed_ns) {
      return make_error(Code::kDeadlineExceeded,
                        "deadline_exceeded: its deadline had passed before its push");
    }
    return make_error(Code::kDeadlineExceeded, "deadline_exceeded: ", since(now_ns()),
                      " since its push, at most ", since(record.deadline_ns), " allowed");
  });
  return std::move(late).error();
}

void Fate::fail(FrameNumber frame, Error error) {
  auto& state = self_.state;
  const auto& stage = self_.stage;
  if (state.record(frame).cancelled()) return;  // Nobody asks what else befell it.
  const bool dropped = stage.may_drop && error.code == Code::kAborted;
  Meter::add(dropped ? meter_.drops : meter_.errors);
  const bool cancelled = state.ending.cancelled() && error.code == Code::kCancelled;
  const bool stops = !dropped && !cancelled && state.plan.on_error == plan::OnError::kStop;
  Error cause;
  const auto placed = [&] {
    Error made =
        std::move(error).within({Where::kFrame, frame}).within({Where::kStage, stage.plan->name});
    if (stops) cause = state.record(frame).in_stream(made);
    return made;
  };
  const auto outcome = dropped     ? Outcome::kDropped
                       : cancelled ? Outcome::kCancelled
                                   : Outcome::kError;
  const bool first = state.record(frame).fail(outcome, placed);
  state.let_out(frame, frame + 1);
  // What a frame does not tell, since it was dropped before, stops nothing.
  if (first && stops)
    state.stop_behind(frame, cause.reason.empty() ? out_of_memory() : std::move(cause));
}

}  // namespace penstock::pipeline
