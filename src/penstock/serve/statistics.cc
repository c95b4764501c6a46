// Counts requests and adds up their times under a lock; maps error codes to reasons of failure.
#include "penstock/serve/statistics.h"

namespace penstock::serve {
namespace {

void add(Duration& to, std::chrono::nanoseconds time) {
  ++to.count;
  to.ns += static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
}

Failure failure_of(Code code, bool as_frame) {
  const bool ended = code == Code::kDeadlineExceeded || code == Code::kCancelled;
  if (as_frame && !ended) return Failure::kBackend;
  switch (code) {
    case Code::kResourceExhausted:
    case Code::kDeadlineExceeded:
    case Code::kUnavailable:
      return Failure::kRejected;
    case Code::kCancelled:
      return Failure::kCancelled;
    case Code::kUnknown:
    case Code::kInternal:
    case Code::kUnimplemented:
    case Code::kAborted:
      return Failure::kBackend;
    default:
      return Failure::kOther;
  }
}

}  // namespace

std::string_view to_string(Failure failure) {
  switch (failure) {
    case Failure::kRejected:
      return "REJECTED";
    case Failure::kCancelled:
      return "CANCELED";
    case Failure::kBackend:
      return "BACKEND";
    case Failure::kOther:
      break;
  }
  return "OTHER";
}

void Recorder::succeed(const Times& times, std::uint64_t copies) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::scoped_lock lock(mutex_);
  counted_.last_inference_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  ++counted_.inferences;
  counted_.copies += copies;
  add(counted_.success, times.all);
  add(counted_.queue, times.queue);
  add(counted_.compute_input, times.input);
  add(counted_.compute_infer, times.infer);
  add(counted_.compute_output, times.output);
}

void Recorder::fail(const Error& error, bool as_frame, std::chrono::nanoseconds all) {
  const std::scoped_lock lock(mutex_);
  add(counted_.fail, all);
  ++counted_.failures[static_cast<std::size_t>(failure_of(error.code, as_frame))];
}

void Recorder::read(ModelStatistics& statistics) const {
  const std::scoped_lock lock(mutex_);
  auto counted = counted_;
  counted.name = std::move(statistics.name);
  counted.version = std::move(statistics.version);
  statistics = std::move(counted);
}

}  // namespace penstock::serve
