// Finds the last run of frames without a long pause, and cuts the workers' spans to it.
#include "penstock/tune/steady.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "penstock/base/quantile.h"

namespace penstock::tune {
namespace {

constexpr std::size_t kFrames = 24;  ///< Of a trace, at most.

/// A frame, from its first call to the end of its last one.
struct Passage {
  std::int64_t begin_ns = 0, end_ns = 0;
};

/// By frame: numbers are given in the order of push.
std::vector<Passage> passages_of(const std::vector<pipeline::WorkerSpans>& workers) {
  std::map<pipeline::FrameNumber, Passage> by_frame;
  for (const auto& worker : workers) {
    for (const auto& span : worker.kept) {
      const auto [at, added] = by_frame.try_emplace(span.frame, span.start_ns, span.end_ns);
      if (added) continue;
      at->second.begin_ns = std::min(at->second.begin_ns, span.start_ns);
      at->second.end_ns = std::max(at->second.end_ns, span.end_ns);
    }
  }
  std::vector<Passage> passages;
  for (const auto& [frame, passage] : by_frame) passages.push_back(passage);
  return passages;
}

double median_gap(const std::vector<Passage>& passages) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < passages.size(); ++i) {
    gaps.push_back(static_cast<double>(passages[i].end_ns - passages[i - 1].end_ns));
  }
  return median(gaps);
}

/// The first of the frames before `end` that came without a pause, in which the others had their
/// turn: between `end` and it nothing was idle for as long as a frame takes.
std::size_t begin_of_run(const std::vector<Passage>& passages, std::size_t end, double pause) {
  std::size_t begin = end - 1;
  while (begin > 0 && end - begin <= kFrames) {
    const auto idle = passages[begin].begin_ns - passages[begin - 1].end_ns;
    if (static_cast<double>(idle) > pause) break;
    --begin;
  }
  return begin;
}

TraceReport between(const std::vector<pipeline::WorkerSpans>& workers, std::int64_t begin_ns,
                    std::int64_t end_ns) {
  const auto seconds = [&](std::int64_t time) {
    return static_cast<double>(time - begin_ns) / 1e9;
  };
  TraceReport trace{.seconds = seconds(end_ns), .lanes = {}};
  for (const auto& worker : workers) {
    auto& lane = trace.lanes.emplace_back(LaneReport{worker.name(), {}});
    for (const auto& span : worker.kept) {
      if (span.end_ns <= begin_ns || span.start_ns >= end_ns) continue;
      lane.spans.push_back(
          {span.frame, seconds(span.ready_ns), seconds(span.start_ns), seconds(span.end_ns)});
    }
    std::ranges::sort(lane.spans, {}, &SpanReport::start);
  }
  return trace;
}

}  // namespace

TraceReport steady_trace(const std::vector<pipeline::WorkerSpans>& workers, std::size_t in_flight) {
  const auto passages = passages_of(workers);
  if (passages.size() < in_flight + 2) return {};
  const auto pause = median_gap(passages);
  // The trace begins when one frame is out and ends when another is: it holds whole periods. A
  // pause that leaves too few frames behind it ends an earlier run.
  for (auto end = passages.size() - in_flight; end > 0;) {
    const auto begin = begin_of_run(passages, end, pause);
    if (end - begin > 1 && passages[begin].end_ns < passages[end - 1].end_ns) {
      return between(workers, passages[begin].end_ns, passages[end - 1].end_ns);
    }
    end = begin;
  }
  return {};
}

Result<TraceReport> steady_trace(const Running& running) {
  PENSTOCK_TRY(const auto workers, running.runner->spans());
  return steady_trace(workers, static_cast<std::size_t>(running.side->in_flight()));
}

}  // namespace penstock::tune
