// Finds frames that came at the rate of the whole run, and cuts the workers' spans to it.
#include "penstock/tune/steady.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>

namespace penstock::tune {
namespace {

constexpr std::size_t kFrames = 24;  ///< Of a trace, at most.
constexpr double kAlike = 0.1;       ///< A rate is another's within this, relative.

/// When each frame was out, in order.
std::vector<std::int64_t> ends_of(const std::vector<pipeline::WorkerSpans>& workers) {
  std::map<pipeline::FrameNumber, std::int64_t> by_frame;
  for (const auto& worker : workers) {
    for (const auto& span : worker.kept) {
      auto& end = by_frame.try_emplace(span.frame, span.end_ns).first->second;
      end = std::max(end, span.end_ns);
    }
  }
  std::vector<std::int64_t> ends;
  for (const auto& [frame, end] : by_frame) ends.push_back(end);
  std::ranges::sort(ends);
  return ends;
}

/// `frames` frames that came out one after the other, after the one at `begin`.
struct Excerpt {
  std::size_t begin = 0, frames = 0;
  double distance = std::numeric_limits<double>::infinity();  ///< Of its rate, by ratio.
};

/// The last one of those whose rate is the nearest.
Excerpt nearest(const std::vector<std::int64_t>& ends, std::size_t frames,
                double frames_per_second) {
  Excerpt best;
  for (std::size_t begin = 0; begin + frames < ends.size(); ++begin) {
    const auto seconds = static_cast<double>(ends[begin + frames] - ends[begin]) / 1e9;
    if (seconds <= 0) continue;
    const double rate = static_cast<double>(frames) / seconds;
    const double distance = std::abs(std::log(rate / frames_per_second));
    if (distance <= best.distance) best = {begin, frames, distance};
  }
  return best;
}

TraceReport between(const std::vector<pipeline::WorkerSpans>& workers, std::int64_t begin_ns,
                    std::int64_t end_ns, std::size_t frames) {
  const auto seconds = [&](std::int64_t time) {
    return static_cast<double>(time - begin_ns) / 1e9;
  };
  TraceReport trace{.seconds = seconds(end_ns), .frames = static_cast<int>(frames), .lanes = {}};
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

TraceReport steady_trace(const std::vector<pipeline::WorkerSpans>& workers, std::size_t in_flight,
                         double frames_per_second) {
  auto ends = ends_of(workers);
  if (ends.size() < in_flight + 2) return {};
  ends.resize(ends.size() - in_flight);
  // It begins when one frame is out and ends when another is: it holds whole periods. A long one
  // is told from chance the best, but others had their turn between these frames.
  Excerpt best;
  for (auto frames = std::min(kFrames, ends.size() - 1); frames > 0; --frames) {
    const auto found = nearest(ends, frames, frames_per_second);
    if (found.distance < best.distance) best = found;
    if (best.distance < std::log1p(kAlike)) break;
  }
  if (best.frames == 0) return {};
  return between(workers, ends[best.begin], ends[best.begin + best.frames], best.frames);
}

Result<TraceReport> steady_trace(const Running& running, double frames_per_second) {
  PENSTOCK_TRY(const auto workers, running.runner->spans());
  return steady_trace(workers, static_cast<std::size_t>(running.side->in_flight()),
                      frames_per_second);
}

}  // namespace penstock::tune
