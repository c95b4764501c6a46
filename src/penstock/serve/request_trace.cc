// A ring of spans, written as each request's phases with the ids of its W3C traceparent.
#include "penstock/serve/request_trace.h"

#include <algorithm>
#include <array>
#include <utility>

#include "penstock/serve/told_outside.h"

namespace penstock::serve {
namespace {

bool is_number(std::string_view text) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return std::ranges::all_of(text, is_digit) && text.find_first_not_of('0') != text.npos;
}

std::int64_t ns_of(RequestSpan::Time time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

pipeline::TraceFile::Arguments arguments_of(const RequestSpan& span) {
  pipeline::TraceFile::Arguments all{{"model", span.model}, {"version", span.version}};
  if (!span.id.empty()) all.emplace_back("id", span.id);
  if (span.frame) all.emplace_back("frame", std::uint64_t{*span.frame});
  if (!span.error.empty()) all.emplace_back("error", span.error);
  if (const auto parent = parse_traceparent(span.traceparent)) {
    all.emplace_back("trace_id", parent->trace_id);
    all.emplace_back("parent_id", parent->span_id);
  }
  return all;
}

void write_one(pipeline::TraceFile& file, int process, std::uint64_t id, const RequestSpan& span) {
  const auto add = [&](const std::string& name, RequestSpan::Time from, RequestSpan::Time to,
                       const pipeline::TraceFile::Arguments& arguments = {}) {
    file.add_free_span(process, id, name, "request", ns_of(from), ns_of(to), arguments);
  };
  add("request " + span.model, span.received, span.end, arguments_of(span));
  const std::array phases = {std::pair("compute_input", span.read), std::pair("queue", span.pushed),
                             std::pair("compute_infer", span.out),
                             std::pair("compute_output", std::optional(span.end))};
  auto from = span.received;
  for (const auto& [name, reached] : phases) {
    add(name, from, reached.value_or(span.end));
    if (!reached) return;
    from = *reached;
  }
}

}  // namespace

std::optional<TraceParent> parse_traceparent(std::string_view text) {
  constexpr std::size_t kTrace = 3, kSpan = 36, kFlags = 53, kLength = 55;
  if (text.size() != kLength || !text.starts_with("00-")) return std::nullopt;
  if (text[kSpan - 1] != '-' || text[kFlags - 1] != '-') return std::nullopt;
  TraceParent parent{std::string(text.substr(kTrace, 32)), std::string(text.substr(kSpan, 16))};
  if (!is_number(parent.trace_id) || !is_number(parent.span_id)) return std::nullopt;
  return parent;
}

void RequestTrace::add(RequestSpan span) {
  // What clients send is bounded by the size of a message alone, and many spans are kept.
  constexpr std::size_t kLongestId = 256;
  span.id = std::string(beginning(span.id, kLongestId));
  if (!parse_traceparent(span.traceparent)) span.traceparent = std::string();
  const std::scoped_lock lock(mutex_);
  if (spans_.size() < kKept) {
    spans_.push_back(std::move(span));
  } else {
    spans_[count_ % kKept] = std::move(span);
  }
  ++count_;
}

std::uint64_t RequestTrace::write(pipeline::TraceFile& file) const {
  const std::scoped_lock lock(mutex_);
  const int process = file.add_process("requests");
  for (std::size_t i = 0; i < spans_.size(); ++i) write_one(file, process, i + 1, spans_[i]);
  return count_ - spans_.size();
}

}  // namespace penstock::serve
