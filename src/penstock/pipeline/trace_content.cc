// Puts spans into lanes that nest, works out what was waited for, and counts frames per edge.
#include "penstock/pipeline/trace_content.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "penstock/base/error.h"

namespace penstock::pipeline {
namespace {

/// Shorter pauses are the hand-over itself.
constexpr std::int64_t kPause = 1'000;
constexpr std::int64_t kPoint = 1'000;  ///< The length of what is a moment, such as a push.

/// Where a frame is seen, for its flow.
struct Sighting {
  std::int64_t at_ns;
  int lane;
  std::string name;
  std::string_view category;
  std::int64_t end_ns;
  TraceFile::Arguments arguments;
};
using Ways = std::map<FrameNumber, std::vector<Sighting>>;
using Times = std::map<FrameNumber, std::int64_t>;

/// When each frame left each stage; the empty name is the caller, who pops.
std::map<std::string, Times> leaving_times(const TraceContent& content) {
  std::map<std::string, Times> times;
  for (const auto& worker : content.workers) {
    for (const auto& span : worker.kept) times[worker.stage][span.frame] = span.end_ns;
  }
  for (const auto& journey : content.journeys) times[""][journey.frame] = journey.popped_ns;
  return times;
}

std::vector<Span> by_start(const WorkerSpans& worker) {
  auto spans = worker.kept;
  // Of frames that share a call, the longer one is around the others.
  std::ranges::sort(spans, [](const Span& a, const Span& b) {
    return std::pair(a.start_ns, -a.end_ns) < std::pair(b.start_ns, -b.end_ns);
  });
  return spans;
}

/// Lanes such that spans of one lie beside or within one another. \returns one for each span.
std::vector<std::size_t> rows_of(const std::vector<Span>& spans) {
  std::vector<std::vector<std::int64_t>> open;  // Of each row: the ends of what is not over.
  std::vector<std::size_t> rows;
  for (const auto& span : spans) {
    std::size_t row = 0;
    for (;; ++row) {
      if (row == open.size()) open.emplace_back();
      auto& ends = open[row];
      while (!ends.empty() && ends.back() <= span.start_ns) ends.pop_back();
      if (ends.empty() || span.end_ns <= ends.back()) break;
    }
    open[row].push_back(span.end_ns);
    rows.push_back(row);
  }
  return rows;
}

class Writer {
 public:
  Writer(TraceFile& trace, const std::string& name, const TraceContent& content)
      : trace_(trace),
        process_(trace.add_process(name)),
        content_(content),
        left_(leaving_times(content)) {}

  void write() {
    const int pushes = add_lane("push");
    for (const auto& worker : content_.workers) add_worker(worker);
    const int pops = add_lane("pop");
    add_moments(pushes, "push", &Journey::pushed_ns);
    add_moments(pops, "pop", &Journey::popped_ns);
    write_ways();
    for (const auto& edge : content_.edges) add_depth(edge);
    write_memory();
  }

 private:
  int add_lane(const std::string& name) {
    trace_.name_lane(process_, ++lanes_, name);
    return lanes_;
  }

  void add_worker(const WorkerSpans& worker) {
    const auto spans = by_start(worker);
    const auto rows = rows_of(spans);
    const int first = add_lane(worker.name());
    const std::size_t most = rows.empty() ? 0 : *std::ranges::max_element(rows);
    for (std::size_t row = 1; row <= most; ++row)
      add_lane(concat(worker.name(), ", call ", row + 1));
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const auto& span = spans[i];
      const auto queued = std::max<std::int64_t>(span.start_ns - span.ready_ns, 0);
      ways_[span.frame].push_back({span.start_ns,
                                   first + static_cast<int>(rows[i]),
                                   concat("frame ", span.frame),
                                   worker.stage,
                                   span.end_ns,
                                   {{"frame", std::uint64_t{span.frame}},
                                    {"queue_us", static_cast<double>(queued) / 1000.0}}});
    }
    add_waits(worker.stage, spans, first);
  }

  /// When the last slot came free that the stage writes the frame to; 0: it always was, or it is
  /// not known.
  [[nodiscard]] std::int64_t room_since(const std::string& stage, FrameNumber frame) const {
    std::int64_t since = 0;
    for (const auto& edge : content_.edges) {
      if (edge.from != stage || edge.capacity == 0 || frame < edge.capacity) continue;
      for (const auto& to : edge.to) since = std::max(since, left_at(to, frame - edge.capacity));
    }
    return since;
  }
  /// 0: it is not known.
  [[nodiscard]] std::int64_t left_at(const std::string& stage, FrameNumber frame) const {
    const auto times = left_.find(stage);
    if (times == left_.end()) return 0;
    const auto found = times->second.find(frame);
    return found == times->second.end() ? 0 : found->second;
  }

  /// What the worker waited for while it had no call.
  void add_waits(const std::string& stage, const std::vector<Span>& spans, int lane) {
    std::optional<std::int64_t> free;
    for (const auto& span : spans) {
      if (free && span.start_ns - *free >= kPause) {
        const auto ready = std::clamp(span.ready_ns, *free, span.start_ns);
        const auto room = std::clamp(room_since(stage, span.frame), ready, span.start_ns);
        add_wait(lane, "waits for input", *free, ready);
        add_wait(lane, "waits for room", ready, room);
        add_wait(lane, "wakes", room, span.start_ns);
      }
      free = std::max(free.value_or(span.end_ns), span.end_ns);
    }
  }
  void add_wait(int lane, const char* what, std::int64_t from, std::int64_t to) {
    if (to - from >= kPause) trace_.add_span(process_, lane, what, "wait", from, to, {});
  }

  /// Moments of the caller, as short spans that end before the next one.
  void add_moments(int lane, const char* what, std::int64_t Journey::* at) {
    std::vector<Journey> sorted = content_.journeys;
    std::ranges::stable_sort(sorted, {}, at);
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      const auto from = sorted[i].*at;
      const auto next = i + 1 < sorted.size() ? sorted[i + 1].*at : from + kPoint;
      ways_[sorted[i].frame].push_back({from,
                                        lane,
                                        concat(what, " ", sorted[i].frame),
                                        "caller",
                                        std::min(from + kPoint, std::max(next, from)),
                                        {{"frame", std::uint64_t{sorted[i].frame}}}});
    }
  }

  /// Each span, and behind it the step of its frame's flow: so the step binds to it. In the order
  /// of time; of spans that begin together the longer one is around the others.
  void write_ways() {
    std::vector<std::tuple<std::int64_t, std::int64_t, FrameNumber, const Sighting*>> order;
    for (auto& [frame, places] : ways_) {
      std::ranges::stable_sort(places, {}, &Sighting::at_ns);
      for (const auto& place : places)
        order.emplace_back(place.at_ns, -place.end_ns, frame, &place);
    }
    std::ranges::sort(order);
    for (const auto& [at, ends, frame, place] : order) {
      trace_.add_span(process_, place->lane, place->name, place->category, at, place->end_ns,
                      place->arguments);
      const auto& places = ways_.at(frame);
      if (places.size() < 2) continue;
      const auto step = place == &places.front()  ? TraceFile::Step::kFirst
                        : place == &places.back() ? TraceFile::Step::kLast
                                                  : TraceFile::Step::kNext;
      trace_.add_flow(process_, place->lane, frame, step, at);
    }
  }

  [[nodiscard]] Times coming_into(const TracedEdge& edge) const {
    Times times;
    if (edge.from.empty()) {
      for (const auto& journey : content_.journeys) times[journey.frame] = journey.pushed_ns;
    } else if (const auto found = left_.find(edge.from); found != left_.end()) {
      times = found->second;
    }
    return times;
  }

  /// A frame is in the edge from its writer's end to the end of its last reader.
  void add_depth(const TracedEdge& edge) {
    std::map<std::int64_t, int> changes;
    for (const auto& [frame, came] : coming_into(edge)) {
      std::int64_t left = came;
      const bool known = std::ranges::all_of(edge.to, [&, frame = frame](const std::string& to) {
        const auto at = left_at(to, frame);
        left = std::max(left, at);
        return at != 0;
      });
      if (!known) continue;
      ++changes[came];
      --changes[left];
    }
    int depth = 0;
    for (const auto& [at, change] : changes) {
      if (change == 0) continue;
      depth += change;
      trace_.add_counter(process_, "depth of " + edge.name, at, static_cast<std::uint64_t>(depth));
      memory_[at] += change * static_cast<std::int64_t>(edge.bytes);
    }
  }

  void write_memory() {
    std::int64_t bytes = 0;
    for (const auto& [at, change] : memory_) {
      if (change == 0) continue;
      bytes += change;
      trace_.add_counter(process_, "memory of frames, bytes", at,
                         static_cast<std::uint64_t>(bytes));
    }
  }

  TraceFile& trace_;
  const int process_;
  const TraceContent& content_;
  const std::map<std::string, Times> left_;
  int lanes_ = 0;
  Ways ways_;
  std::map<std::int64_t, std::int64_t> memory_;  // Changes of bytes, by time.
};

/// What another machine did of one worker's frames: a group of lanes, each frame in one of them.
void add_far_spans(TraceFile& trace, const WorkerSpans& worker) {
  const auto is_far = [](const Span& span) { return span.far.ended_ns != 0; };
  if (std::ranges::none_of(worker.kept, is_far)) return;
  const int process = trace.add_process(
      concat(worker.device, ", ", worker.stage, "/", worker.replica, ", as its own clock says"));
  std::uint64_t id = 0;
  for (const auto& span : worker.kept) {
    if (!is_far(span)) continue;
    const auto& far = span.far;
    const auto add = [&](const std::string& name, std::int64_t from, std::int64_t to,
                         const TraceFile::Arguments& arguments = {}) {
      if (from != 0 && to != 0)
        trace.add_free_span(process, id, name, worker.stage, from, to, arguments);
    };
    ++id;
    add(concat("frame ", span.frame), far.received_ns, far.ended_ns,
        {{"frame", std::uint64_t{span.frame}},
         {"clock_error_us", static_cast<double>(far.error_ns) / 1000.0}});
    add("pull", far.received_ns, far.pulled_ns);
    add("run", far.begun_ns, far.ended_ns);
  }
}

}  // namespace

void write_content(TraceFile& trace, const std::string& name, const TraceContent& content) {
  Writer(trace, name, content).write();
  for (const auto& worker : content.workers) add_far_spans(trace, worker);
}

}  // namespace penstock::pipeline
