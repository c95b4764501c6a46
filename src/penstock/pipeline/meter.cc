// Counts frames and calls, and times them.
#include "penstock/pipeline/meter.h"

#include <algorithm>

#include "penstock/device/device.h"

namespace penstock::pipeline {

void Meter::note(const Lane& lane, std::size_t i) {
  add(frames);
  queue.record(lane.start_ns - lane.ready_ns[i]);
  const std::int64_t began = lane.call->began_ns();
  const std::int64_t before = lane.call->transfer_before_ns();
  compute_infer.record(self_.clock_ns - (began != 0 ? began : lane.start_ns) -
                       (lane.call->transfer_ns() - before));
  if (began != 0) compute_input.record(began - lane.start_ns - before);
}

void Meter::note_span(const Lane& lane, std::size_t i) {
  const std::scoped_lock lock(span_mutex_);
  spans_[span_count_++ % spans_.size()] = {lane.call->frame(i), lane.ready_ns[i], lane.start_ns,
                                           self_.clock_ns, lane.call->far_times()};
}

double Meter::busy_ns() const {
  double sum = 0;
  for (std::size_t n = 1; n <= calls.size(); ++n) {
    const auto of_calls = call_stats(n);
    sum += of_calls.input_ns + of_calls.infer_ns + of_calls.output_ns;
  }
  return sum + Histogram::quantiles({&transfer}).sum_ns;
}

void Meter::note_call(const Lane& lane) {
  average_ns_ += (self_.clock_ns - lane.start_ns - average_ns_) / 8;
  // Of arrivals, not of service: a fast stage behind a slow one brings frames at the slow one's
  // pace. A pause counts as what nobody waits longer than, so that it is soon forgotten.
  const std::int64_t interval = std::min(self_.clock_ns - last_end_ns_, 2 * Batch::kCallerPatience);
  last_end_ns_ = self_.clock_ns;
  const std::size_t count = lane.call->count();
  const bool alone = count > 1 && lane.call->rows() == 1;
  last_call_ = alone ? 0 : count - 1;
  add(calls[last_call_], alone ? count : 1);
  note_times(lane);
  if (const std::size_t idle = lane.call->idle_rows(); idle > 0) add(surplus, idle);
  const auto frames_of_call = static_cast<std::int64_t>(count);
  const std::int64_t of_frame = frames_of_call == 1 ? interval : interval / frames_of_call;
  interval_ns_ += (of_frame - interval_ns_) / 8;
  const auto replicas = static_cast<std::int64_t>(self_.replicas);
  self_.stage.period_ns.store(replicas == 1 ? interval_ns_ : interval_ns_ / replicas,
                              std::memory_order_relaxed);
}

void Meter::note_times(const Lane& lane) {
  const auto add_ns = [](auto& to, std::int64_t ns) {
    add(to, static_cast<std::uint64_t>(std::max<std::int64_t>(ns, 0)));
  };
  CallTimes& times = call_times[last_call_];
  const std::int64_t taken = self_.clock_ns - lane.start_ns - lane.call->transfer_ns();
  add_ns(times.all_ns, taken);
  if (!lane.sampled) return;
  add_ns(times.sampled_ns, taken);
  const std::int64_t began = lane.call->began_ns();
  if (began != 0) add_ns(times.input_ns, began - lane.start_ns - lane.call->transfer_before_ns());
}

void Meter::note_output(std::int64_t taken_ns) {
  compute_output.record(taken_ns);
  add(call_times[last_call_].output_ns, static_cast<std::uint64_t>(taken_ns));
}

CallStats Meter::call_stats(std::size_t n) const {
  const auto number = [](const auto& counter) {
    return static_cast<double>(counter.load(std::memory_order_relaxed));
  };
  const CallTimes& times = call_times[n - 1];
  const double all_ns = number(times.all_ns);
  const double sampled_ns = number(times.sampled_ns);
  const double share = sampled_ns > 0 ? all_ns / sampled_ns : 0;
  const double input_ns = std::min(number(times.input_ns) * share, all_ns);
  return {.calls = calls[n - 1].load(std::memory_order_relaxed),
          .input_ns = input_ns,
          .infer_ns = all_ns - input_ns,
          .output_ns = number(times.output_ns) * share};
}

void Meter::keep_spans(std::size_t count) {
  spans_.resize(count);
}

WorkerSpans Meter::spans() const {
  const std::scoped_lock lock(span_mutex_);
  const auto kept = std::min<std::uint64_t>(span_count_, spans_.size());
  return {.stage = self_.stage.plan->name,
          .replica = self_.replica,
          .device = device::to_string(self_.stage.places[self_.replica]),
          .kept = {spans_.begin(), spans_.begin() + static_cast<std::ptrdiff_t>(kept)},
          .lost = span_count_ - kept};
}

}  // namespace penstock::pipeline
