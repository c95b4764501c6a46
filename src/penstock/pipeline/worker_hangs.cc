// Worker: gives up a call that hangs, and goes on without it.
#include <algorithm>
#include <optional>

#include "penstock/base/option_name.h"
#include "penstock/base/thread.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/pipeline/state.h"
#include "penstock/pipeline/worker.h"

namespace penstock::pipeline {
namespace {

double ms(std::int64_t ns) {
  return static_cast<double>(ns / 1000) / 1000;
}

}  // namespace

// The call goes on without anybody. `ready`: whether the frames behind can be computed.
bool Worker::give_up(Lane& lane, std::int64_t ran_ns, bool ready) {
  state_.left_calls.store(true);
  ready = ready && guarded([&]() -> Status { return reopen(lane); });
  if (!ready) lane.call->cancel();
  const bool ends = !ready || stage_.plan->max_left_behind == 0;
  if (ends && !state_.ending.cancelled()) {
    const FrameNumber first = lane.frames.front();
    Status cause = guarded([&]() -> Status {
      return state_.record(first).in_stream(hanging(ran_ns)
                                                .within({Where::kFrame, first})
                                                .within({Where::kStage, stage_.plan->name}));
    });
    state_.hang(lane.frames.back() + 1, std::move(cause).error());
  }
  for (const FrameNumber frame : lane.frames) {
    if (lane.again == nullptr) stage_.computed[frame & state_.window_mask] = 0;
    if (state_.record(frame).alive()) fate_.fail(frame, hanging(ran_ns));
  }
  if (!ends) ability_.look();
  return ready;
}

// Another call takes the place of the one that is lost, which has tensors that nobody else has.
Status Worker::reopen(Lane& lane) {
  ability_.reserve();
  auto fresh = make_call();
  PENSTOCK_CHECK_OK(fresh->open(ability_.executables()));
  PENSTOCK_CHECK_OK(lane.call->abandon());
  const auto counted = lane.call->counters();
  const std::scoped_lock lock(calls_mutex_);
  add(lost_counters_, counted);
  ability_.leave_behind(std::exchange(lane.call, std::move(fresh)));
  return {};
}

bool Worker::keeps_lost() {
  const bool left = ability_.keeps_calls();
  if (!asynchronous_) return false;  // Their threads keep what they may touch.
  return left || std::ranges::any_of(lanes_, [](const Lane& lane) {
           return lane.call && lane.call->in_progress_still();
         });
}

void Worker::give_up_if_hanging() {
  std::int64_t ran = 0;
  {
    const std::scoped_lock lock(calls_mutex_);
    CallClock& clock = lanes_.front().call->clock();
    const auto reading = clock.read();
    ran = ran_ns(reading);
    if (ran <= max_run_ns_ || !clock.abandon(reading)) return;  // Or it came back this moment.
  }
  // Without a thread for it this one, the watchdog's, passes on the frames until the pipeline ends.
  if (!hand_over(ran)) take_over(ran, false);
}

Error Worker::hanging(std::int64_t ran_ns) const {
  Status told = guarded([&]() -> Status {
    if (max_run_ns_ == 0)
      return make_error(Code::kCancelled, "the call was left behind after ", ms(ran_ns), " ms");
    return make_error(Code::kDeadlineExceeded, "the call hangs: it has run for ", ms(ran_ns),
                      " ms, at most ", ms(max_run_ns_), " ms allowed (", OptionName::kMaxRun, ")");
  });
  return std::move(told).error();
}

std::int64_t Worker::ran_ns(CallClock::Reading reading) const {
  const bool counts =
      reading.phase == CallClock::Phase::kRunning ||
      // Where a call hangs, what others wait for may never come.
      (reading.phase == CallClock::Phase::kPaused && (state_.ending.hangs() || state_.hanging > 0));
  return counts ? now_ns() - reading.since_ns : 0;
}

// Unless none is in progress.
std::optional<CallClock::Reading> Worker::abandon_call() {
  const std::scoped_lock lock(calls_mutex_);
  CallClock& clock = lanes_.front().call->clock();
  const auto reading = clock.read();
  return clock.abandon(reading) ? std::optional(reading) : std::nullopt;
}

std::optional<std::string> Worker::leave_behind() {
  if (lanes_.empty()) return std::nullopt;
  if (asynchronous_) {  // Its own thread gives up what is in progress.
    leaves_.store(true, std::memory_order_relaxed);
    return std::nullopt;
  }
  const auto reading = abandon_call();
  if (!reading) return std::nullopt;
  const auto& taken = lanes_.front().frames;
  const FrameNumber first = taken.front();
  for (const FrameNumber frame : taken) {
    state_.record(frame).fail(Outcome::kCancelled, [&] { return state_.ending.error(); });
  }
  const std::int64_t ran = now_ns() - reading->since_ns;
  if (!hand_over(ran)) {
    give_up_lost(ran, false);
    unattended_.store(true, std::memory_order_relaxed);
  }
  Result<std::string> told = guarded([&]() -> Result<std::string> {
    return concat("stage '", stage_.plan->name, "': frame ", first, ": the call has run for ",
                  ms(ran),
                  " ms and goes on; the pipeline ends without it, and leaves its thread behind");
  });
  return told ? *std::move(told) : std::string();
}

void Worker::attend() {
  if (unattended_.exchange(false, std::memory_order_acq_rel)) loop();
}

bool Worker::hand_over(std::int64_t ran_ns) {
  state_.hanging.fetch_add(1, std::memory_order_relaxed);
  state_.left_calls.store(true);
  const std::scoped_lock lock(calls_mutex_);
  thread_.detach();
  return static_cast<bool>(start_thread(thread_, [this, keep = state_.shared_from_this(), ran_ns] {
    take_over(ran_ns, static_cast<bool>(guarded([&] { return adopt_thread(); })));
  }));
}

}  // namespace penstock::pipeline
