// RequestTrace: the spans of the last requests, under the numbers that their clients trace them by.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/pipeline/frame.h"
#include "penstock/pipeline/trace_file.h"

namespace penstock::serve {

/// A W3C `traceparent`, version 00: whose trace a request is of, and which span asks.
struct TraceParent {
  std::string trace_id;  ///< 32 hexadecimal digits.
  std::string span_id;   ///< 16: who asks.
};
/// Nothing where the text is none; the standard says to go on without then.
std::optional<TraceParent> parse_traceparent(std::string_view text);

struct RequestSpan {
  using Time = std::chrono::steady_clock::time_point;
  std::string model, version, id, traceparent;
  std::string error;  ///< Its code's name; empty: it succeeded.
  std::optional<pipeline::FrameNumber> frame;
  Time received;
  std::optional<Time> read, pushed, out;  ///< As far as it came.
  Time end;
};

/// \threads  all functions may be called from any thread.
class RequestTrace {
 public:
  static constexpr std::size_t kKept = 100'000;  ///< Later ones take the place of the earliest.

  void add(RequestSpan span);
  /// One group of lanes, in which each request has one; within it, its phases as the statistics
  /// have them. \returns how many earlier ones are lost.
  std::uint64_t write(pipeline::TraceFile& file) const;

 private:
  mutable std::mutex mutex_;  // Guards both.
  std::vector<RequestSpan> spans_;
  std::uint64_t count_ = 0;
};

}  // namespace penstock::serve
